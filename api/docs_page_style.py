"""The style of the page at ``/docs``."""

STYLE = """
:root { color-scheme: light dark; --text: #1c2128; --soft: #57606a; --back: #ffffff; --panel: #f6f8fa; --line: #d8dee4;
  --accent: #0b6bcb; --get: #0a7d4b; --post: #0b6bcb; --delete: #b3261e; --other: #6b4fbb; }
@media (prefers-color-scheme: dark) { :root { --text: #e2e6ea; --soft: #9aa4af; --back: #14181d; --panel: #1c2229;
  --line: #323a44; --accent: #6cb2ff; --get: #4cc38a; --post: #6cb2ff; --delete: #ff8b81; --other: #b9a3ff; } }
* { box-sizing: border-box; }
html { scroll-behavior: smooth; scroll-padding-top: 1rem; }
body { margin: 0; font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif;
  color: var(--text); background: var(--back); display: grid; grid-template-columns: 17rem minmax(0, 1fr); }
a { color: var(--accent); text-decoration: none; }
a:hover { text-decoration: underline; }
nav { position: sticky; top: 0; height: 100vh; overflow-y: auto; padding: 1.5rem 1.25rem; background: var(--panel);
  border-right: 1px solid var(--line); font-size: 0.9rem; }
nav p { margin: 1.2rem 0 0.3rem; color: var(--soft); font-weight: 600; }
nav ul { list-style: none; margin: 0; padding: 0; }
nav li { padding: 0.12rem 0; }
main { padding: 1.5rem 2.5rem 5rem; max-width: 62rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0.5rem 0 1rem; }
h2 { font-size: 1.4rem; margin: 3rem 0 0.5rem; padding-bottom: 0.3rem; border-bottom: 1px solid var(--line); }
h3 { font-size: 1.1rem; margin: 2.5rem 0 0.4rem; }
h4 { font-size: 0.95rem; margin: 1.4rem 0 0.4rem; color: var(--soft); }
code, pre { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: 0.875em; }
code { background: var(--panel); border-radius: 4px; padding: 0.1em 0.3em; overflow-wrap: anywhere; }
pre { background: var(--panel); border: 1px solid var(--line); border-radius: 6px; padding: 0.8rem 1rem;
  overflow-x: auto; margin: 0.5rem 0; }
pre code { background: none; padding: 0; overflow-wrap: normal; }
table { border-collapse: collapse; width: 100%; font-size: 0.92rem; margin: 0.4rem 0 0.8rem; }
th, td { text-align: left; vertical-align: top; padding: 0.4rem 0.7rem 0.4rem 0; border-bottom: 1px solid var(--line); }
th { color: var(--soft); font-weight: 600; }
td:first-child, th:first-child { width: 24%; }
.method { display: inline-block; font: 600 0.8rem/1.4 ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  margin-right: 0.5rem; text-transform: uppercase; }
.get { color: var(--get); } .post { color: var(--post); } .delete { color: var(--delete); }
.put, .patch, .head { color: var(--other); }
.needed { color: var(--delete); font-size: 0.8rem; white-space: nowrap; }
.soft { color: var(--soft); }
details summary { cursor: pointer; color: var(--accent); font-size: 0.92rem; }
@media (max-width: 50rem) { body { display: block; } nav { position: static; height: auto; border-right: 0;
  border-bottom: 1px solid var(--line); } main { padding: 1rem 1rem 4rem; } }
"""
