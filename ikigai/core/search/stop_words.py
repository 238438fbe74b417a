"""Words that are in every other text: a phrase of them is significant only by their order.

Two of them in a row are a key of the index of their own, so that "to be or not to be" need not be looked for in every
text that has these words. The index is built with this list: a change of the list needs a new index.
"""

_ENGLISH = """
a about above after again all also although always am an and another any are as at away back be because been before
being below better between both but by can cannot come could day did do does done down each either else even ever every
few find first for found from get give given go good got had has have he her here him his how i if in instead into is it
its just keep know last least let like little long look made make many may me mean might more most much must my need
never new next no nor not nothing now of off often on once one only or other our out over own part people please put
rather really right said same say see set she should show since so some something still such take tell than that the
their them then there these they thing things think this those though time to together too two under until up us use
used using very want was way we well were what when where whether which while who why will with within without work
would yes yet you your
"""
_PROGRAMMING = """
add answer api app argument array async await base block bool bug build byte bytes call case change check class client
code column command commit config connection content context count create current data database date debug default
delete diff dict directory docs element empty end entry env error event example exception execute exit expected export
fail failed false field file files filter fix flag folder format func function git handle header host html http https id
import index info input install instance int integer item json key kind label length level library limit line lines link
list load local lock log long loop main map match max memory merge message messages method min missing mode model module
name node none null number object ok open option options order output package page param parameter parse path pattern
plan print process program project prompt py python query queue raise range read record reply repo request required
response result results return returns row rows rule run running save schema script search select self send server
service session setting settings shell size source space sql stack start state statement status step stop store str
string struct support switch system table tag task temp test tests text thread timeout token tokens tool tools total
tree true turn type types undefined unit update url user users utf valid value values variable version view void wait
warning web window word words write
"""
_OTHER = """
aber als am an auch auf aus bei bin bis da damit dann das dass dem den der des die doch du durch ein eine einem einen
einer es fur hat habe haben ich ihr im in ist ja kann kein man mehr mein mit muss nach nicht noch nur oder sein sich sie
sind so uber um und uns unter von vor war was wenn werden wie wir wird zu zum zur
au aux avec ce ces cette dans de des du elle en est et il je la le les leur mais mon ne nous on ou par pas plus pour que
qui sa se ses son sont sur tout un une vous
al como con cuando del desde donde el ella entre era eres es esta este esto fue hay las lo los mas mi muy no nos o para
pero por porque que se ser si sin sobre su sus tiene todo una uno y ya yo
alla che ci come cui da dal dalla degli dei del della delle di e gli ha hanno i il io loro ma nel nella non per piu
quando questo se si sono un anche ao aos as com da das do dos ela ele em entre essa esse eu foi isso ja mais mas mesmo
na nas nao no nos num os ou pela pelo por qual quando quem sao se sem ser seu sua tambem tem te um uma voce
aan aar als ben bij dan dat de deze die dit door een en er geen haar heb heeft het hij hoe ik is je kan maar met mijn
naar niet nog nu of om onder ons ook op over te tot uit van veel voor waar was wat we wel werd wie wij wordt zal ze zijn
zo zou
а без более бы был была были быть в вам вас весь во вот все всего вы где да даже для до его ее если есть еще же за и из
или им их к как ко когда кто ли либо мне может мы на надо наш не него нее нет ни них но ну о об однако он она они оно от
очень по под при с со так также такой там те тем то того тоже той только том ты у уже хотя чего чем что чтобы чья эта
эти это я
"""
STOP_WORDS = frozenset(f"{_ENGLISH} {_PROGRAMMING} {_OTHER}".split())
