"""This module holds the style of an exported page: the reader's own fonts, light or dark as the browser is."""

CSS = """\
:root { --ink: #1f2328; --dim: #59636e; --line: #d1d9e0; --paper: #fff; --shade: #f6f8fa;
  --you: #0969da; --bad: #b3261e }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --dim: #9198a1; --line: #3d444d; --paper: #0d1117; --shade: #161b22;
    --you: #6cb6ff; --bad: #ff8a80 }
}
* { box-sizing: border-box }
body { margin: 0; display: grid; grid-template-columns: 17rem minmax(0, 1fr); background: var(--paper);
  color: var(--ink); font: 16px/1.55 system-ui, sans-serif }
nav { order: -1; position: sticky; top: 0; align-self: start; max-height: 100vh; overflow: auto; padding: 1.5rem 1rem;
  border-right: 1px solid var(--line); font-size: .85rem }
nav ol { padding-left: 2.5em; margin: .5rem 0; overflow-wrap: anywhere }
main { max-width: 52rem; width: 100%; margin: 0 auto; padding: 1rem 1.5rem 4rem }
h1 { margin-bottom: 0 }
a { color: var(--you) }
nav a { color: inherit; text-decoration: none }
header, .note, time { color: var(--dim); font-size: .85rem }
section { border-top: 1px solid var(--line); margin-top: 1.5rem; padding-top: .5rem; content-visibility: auto;
  contain-intrinsic-size: auto 30rem }
.user { border-left: 3px solid var(--you); padding-left: .9rem; margin: 1rem 0 }
.user p { white-space: pre-wrap; overflow-wrap: anywhere; margin: .2rem 0 }
.user img { display: block; max-width: 100%; max-height: 30rem; margin: .5rem 0 }
.reply { overflow-wrap: anywhere }
.reply table { border-collapse: collapse; display: block; overflow-x: auto }
.reply th, .reply td { border: 1px solid var(--line); padding: .25rem .6rem }
.reply blockquote { border-left: 3px solid var(--line); margin-left: 0; padding-left: .9rem; color: var(--dim) }
pre, code { font: .875em/1.45 ui-monospace, monospace; background: var(--shade); border-radius: 4px }
code { padding: .1em .3em }
pre { padding: .75rem; overflow-x: auto }
pre code { padding: 0; font-size: 1em }
details { margin: .4rem 0 }
details pre { white-space: pre-wrap; overflow-wrap: anywhere; max-height: 40rem; overflow: auto }
summary { cursor: pointer; color: var(--dim); overflow-wrap: anywhere }
.thought pre { font-style: italic }
.failed summary, .stopped { color: var(--bad) }
.note { white-space: pre-wrap; overflow-wrap: anywhere }
@media (max-width: 60rem) {
  body { display: flex; flex-direction: column }
  nav { position: static; max-height: 40vh; width: 100%; border-right: 0; border-bottom: 1px solid var(--line) }
}
@media print { nav { display: none } body { display: block } }
"""
