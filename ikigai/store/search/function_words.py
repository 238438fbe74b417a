"""This module lists the function words of each language that has a stemmer: they tell a language, and nothing else.

The index of stems is made with these lists: a change of a list needs a new `stems.ANALYSIS`.
"""

FUNCTION_WORDS = {
    "english": """
a about above after again all am an and any are as at be because been before being below between both but by can could
did do does doing down during each few for from further had has have having he her here hers him his how i if in into is
it its itself just me more most my myself no nor not now of off on once only or other our ours out over own same she
should so some such than that the their theirs them then there these they this those through to too under until up very
was we were what when where which while who whom why will with would you your yours s t re ve ll d m don
""",
    "german": """
aber als am an auch auf aus bei bin bis da damit dann das dass dem den der des die dich dir doch du durch ein eine einem
einen einer eines er es euch für hat habe haben hatte ich ihm ihn ihr im in ist ja kann kein keine man mein mich mir mit
muss nach nicht noch nur ob oder sein seine sich sie sind so um und uns unser unter von vor war waren was welche wenn
wer werden wie wir wird wo würde zu zum zur über
""",
    "french": """
ai au aux avec ce ces cette dans de des du elle elles en est et eu il ils j je l la le les leur lui ma mais me mes moi
mon même n ne nos notre nous on ont ou où par pas pour qu que quel quelle qui sa se ses son sont sur ta te tes toi ton
tu
un une vos votre vous été être était d s c à
""",
    "spanish": """
al como con cuando cuál de del desde donde dónde e el ella ellos en entre era eres es esa ese eso esta estaba este esto
está fue ha hay he la las le les lo los mas me mi mis muy más ni no nos o para pero por porque que qué quien se ser si
sin sobre son su sus sí te tiene tu tus un una unas uno unos y ya yo él
""",
    "italian": """
a ad al alla alle anche che chi ci come con cosa cui da dal dalla dei del della delle di dove e ed era essere fu gli ha
hai hanno ho i il in io la le lei li lo loro lui ma mi mia mio ne nei nel nella noi non o perché per più quale quando
quello questa questo se sei si sia sono sta su sua sul sulla suo ti tra tu un una uno voi è
""",
    "portuguese": """
a ao aos as até com como da das de dela dele do dos e ela ele eles em entre era essa esse esta este eu foi há isso isto
já lhe mais mas me mesmo meu minha muito na nas nem no nos não nós o os ou para pela pelo por qual quando que quem se
sem
ser seu sua são só também te tem tu um uma umas uns você à é
""",
    "dutch": """
aan al als bij dan dat de den der deze die dit doen door dus een en er ge had heb hebben heeft het hem hier hij hoe hun
ik in is ja je jij kan kon maar me meer men met mij mijn moet na naar niet nog nu of om omdat onder ons ook op over te
tot u uit van voor waar was wat we wel welke werd wie wij wil worden ze zei zelf zich zij zijn zo zou
""",
    "swedish": """
alla att av blev bli de dem den denna det detta dig din du där efter ej eller en er ett från för ha hade han har henne
hennes hon honom hur här i icke inom inte ja jag kan kunde man med mellan men mig min mitt mot mycket ni nu när någon
något och om oss på samma sedan sig sin skulle som så till upp ut vad var vara vi vid vilken är över
""",
    "danish": """
af alle at blev bliver da de dem den denne der deres det dette dig din disse dog du efter eller en end er et for fra ham
han hans har havde hende her hos hun hvad hvem hvis hvor i ikke ind jeg jo kunne man med meget men mig min mod ned noget
nu når og også om op os over på sig sin skal skulle som så til ud under var vi vil ville være været
""",
    "norwegian": """
alle at av ble bli da de dem den denne der deres det dette deg din du eller en enn er et etter for fra før ha hadde han
hans har hennes her hun hva hvem hvis hvor hvordan i ikke inn jeg kan kunne man med meg meget men mot mye ned noe noen
nå
når og også om opp oss over på seg sin skal skulle som så til ut var vi vil ville være
""",
    "finnish": """
ei ja että en et he hän hänen ihan itse joka jos jossa jotka kanssa kuin kuka kun me mikä minkä minun minulla minä missä
mitä mukaan mutta myös ne niin niitä nyt ole olen oli olla on ovat se sen siinä sinun sinä sitä tai te tämä tässä vaan
vain voi mihin milloin miten koska ollut
""",
    "hungarian": """
a abban ahhoz ahogy aki akkor ami amikor amely az azok azon azt azért azzal be benne csak de e ebben egy egyik ehhez el
elég ennek és ez ezek ezen ezt ezzel fel ha hanem hát hogy hol hogyan igen is itt ki kell le lehet lesz lett maga majd
már még meg mely mert mi miért mikor mint mit most nagyon ne nekem neki nem nincs olyan ő ők ott pedig s sem sok szerint
te tehát tudom után vagy vagyok valami van vannak volt voltak át én így úgy
""",
    "romanian": """
acea aceasta acest acum ai al ale am ar are as au avea ca care ce cea cel cine cu cum când da dar de din după e ea ei el
era este eu fi fie fost i iar in la le lor lui mai mea meu mi ne nici noastră nostru nu o ori pe pentru prin sa sau se
si sunt să te tu un una unde unei unui va voi vă în își și
""",
    "russian": """
а без более бы был была были было быть в вам вас весь во вот все всего вы где да даже для до его ее если есть еще же за
здесь и из или им их к как ко когда кто ли либо мне может мы на надо наш не него нее нет ни них но ну о об он она они
оно от очень по под при с со так также такой там те тем то того тоже той только том ты у уже хотя чего чей чем что чтобы
чье эта эти это я меня мой моя
""",
    "turkish": """
acaba ama ancak bana bazı ben beni benim bir biz bizim bu bunu bunun da daha de değil diye en gibi hem hep hiç için ile
ise kadar ki kim mi mu mı nasıl ne neden nerede niçin o olan olarak oldu on onu onun sen seni siz şu ve veya var ya yok
çok çünkü
""",
}
