"""The style of a page: the colours of the screen, dark and light, and black on white for print."""

from __future__ import annotations

from functools import cache

from iotop_ai.model.job.time_shares import SHARES
from iotop_ai.present.text.theme import text_styles

_TOKENS = ("text", "strong", "dim", "faint", "bad", "warn", "ok", "info", "unsure", "graph", "hot")
_SHARES = {
    # Computing has the OK colour. Waits for data have warm colours, and the job's other work has cool colours.
    "compute": ("#3f9c78", "#3c9a74"),
    "collective": ("#9d7fd6", "#8a66c9"),
    "transfer": ("#c98fd8", "#b06cc4"),
    "data_disk": ("#d9544d", "#cf4439"),
    "data_network": ("#e58a4b", "#dd7a2f"),
    "data_cpu": ("#e3b94f", "#dba81f"),
    "data_other": ("#b87a6b", "#b98274"),
    "host": ("#6d93b8", "#5f87b0"),
    "checkpoint": ("#4f7fd0", "#3f6fc4"),
    "startup": ("#55b3c9", "#3fa2bb"),
    "compile": ("#8fd0dd", "#82c4d3"),
    "stopped": ("#6f7b86", "#7d8993"),
    "hung": ("#454f59", "#3b444d"),
    "unexplained": ("#2c353e", "#d5dadd"),
}
"""The colour of each share, on a dark and on a light background."""
_LAYOUT = """\
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--text);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;
font-variant-numeric:tabular-nums}
main{max-width:1120px;margin:0 auto;padding:28px 24px 64px}
.from{color:var(--dim);font-size:13px;display:flex;justify-content:space-between;gap:16px;flex-wrap:wrap}
.verdict{display:flex;gap:16px;align-items:baseline;margin:18px 0 6px;flex-wrap:wrap}
h1{font-size:27px;line-height:1.25;font-weight:650;margin:0;color:var(--strong);flex:1 1 420px}
.state{font-size:15px;font-weight:700;letter-spacing:.04em;padding:5px 12px;border-radius:5px;color:var(--block)}
.h-bad{background:var(--bad)}.h-warn{background:var(--warn)}.h-ok{background:var(--ok)}.h-info{background:var(--info)}
.h-unsure{background:var(--unsure)}.h-dim{background:var(--dim)}
dl.lines{display:grid;grid-template-columns:76px 1fr;gap:4px 12px;margin:10px 0 0}
dl.lines dt{color:var(--dim)}dl.lines dd{margin:0;overflow-wrap:anywhere}dd.do{color:var(--strong);font-weight:600}
.figures{display:flex;flex-wrap:wrap;gap:12px 40px;margin:26px 0 6px}
.figure b{display:block;font-size:30px;line-height:1.15;font-weight:650;color:var(--strong)}
.figure b.bad{color:var(--bad)}.figure b.ok{color:var(--ok)}.figure b.warn{color:var(--warn)}
.figure span{color:var(--dim);font-size:13px}
h2{font-size:17px;font-weight:650;margin:38px 0 10px;color:var(--strong);border-bottom:1px solid var(--faint);
padding-bottom:5px}
h3{font-size:14px;font-weight:600;margin:18px 0 4px}
h3 small,h2 small{color:var(--dim);font-weight:400;margin-left:10px;font-size:13px}
p.note{color:var(--dim);font-size:13px;margin:6px 0}
svg{display:block;width:100%;height:auto;overflow:visible}
svg text{font:11px system-ui,sans-serif;fill:var(--dim);font-variant-numeric:tabular-nums}
svg text.in{fill:#fff;font-weight:600;font-size:12px}svg text.dark{fill:var(--strong)}svg text.on{fill:var(--block)}
.grid{stroke:var(--faint);stroke-width:1;opacity:.55}.mark{stroke:var(--info);stroke-dasharray:2 3}
.trouble{stroke:var(--bad);stroke-dasharray:2 3}.gap{fill:var(--faint);opacity:.35}
.line{fill:none;stroke-width:1.6;stroke-linejoin:round;stroke-linecap:round}
.c-graph{stroke:var(--graph)}.c-hot{stroke:var(--hot)}.c-ok{stroke:var(--ok)}.c-warn{stroke:var(--warn)}
.c-unsure{stroke:var(--unsure)}.c-info{stroke:var(--info)}
.a-graph{fill:var(--graph)}.a-hot{fill:var(--hot)}.a-ok{fill:var(--ok)}.a-warn{fill:var(--warn)}
.a-unsure{fill:var(--unsure)}.a-info{fill:var(--info)}.area{opacity:.22}
.f-bad{fill:var(--bad)}.f-warn{fill:var(--warn)}.f-ok{fill:var(--ok)}.f-info{fill:var(--info)}
.f-unsure{fill:var(--unsure)}.f-dim{fill:var(--dim)}
.heat{fill:var(--hot)}.track{fill:var(--panel)}
.key{display:flex;flex-wrap:wrap;gap:2px 18px;color:var(--dim);font-size:13px;margin:6px 0}
.key span{display:inline-flex;align-items:center;gap:6px}.key svg{width:10px;height:10px}
.tables{overflow-x:auto;margin:0 -4px}
table{border-collapse:collapse;font-size:13px;min-width:100%}table.few{min-width:min(100%,520px)}
th,td{padding:3px 8px;text-align:right;white-space:nowrap;border-bottom:1px solid var(--faint)}
th{color:var(--dim);font-weight:500}tr:last-child td{border-bottom:0}
th.t,td.t{text-align:left}td.w{white-space:normal;min-width:180px;overflow-wrap:anywhere}
tr.bad td:first-child{color:var(--bad);font-weight:650}
article{border-left:3px solid var(--faint);padding:2px 0 2px 16px;margin:16px 0}
article.e-bad{border-color:var(--bad)}article.e-warn{border-color:var(--warn)}article.e-ok{border-color:var(--ok)}
article.e-info{border-color:var(--info)}article.e-unsure{border-color:var(--unsure)}
article .tables{margin-top:10px}article h3{margin:0;font-size:15px;color:var(--strong)}
td.met{color:var(--bad)}td.better{color:var(--ok)}svg.forest{width:150px;height:14px}td.unmet,td.plain{color:var(--dim)}td.unknown{color:var(--unsure)}
#tip{position:fixed;z-index:9;pointer-events:none;background:var(--panel);color:var(--text);
border:1px solid var(--faint);border-radius:5px;padding:5px 9px;font-size:12px;line-height:1.45;white-space:pre;
box-shadow:0 3px 12px #0004}
#tip[hidden]{display:none}
.cursor{stroke:var(--dim);stroke-width:1;pointer-events:none}
footer{color:var(--dim);font-size:12px;margin-top:44px}
@media (max-width:640px){main{padding:16px 12px 40px}h1{font-size:21px}.figure b{font-size:24px}}
@media print{:root{--bg:#fff}@page{margin:14mm 12mm}main{max-width:none;padding:0}body{font-size:12px}h1{font-size:20px}
.figure b{font-size:22px}h2{margin-top:22px}h2,h3,.key{break-after:avoid}svg,article,tr{break-inside:avoid}
table{font-size:8.5px;min-width:0}th,td{padding:2px 4px}.tables{overflow:visible;margin:0}#tip{display:none}
*{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
"""


def _variables(theme: str, index: int) -> str:
    """The CSS variables of a theme. index: the position of the theme's colours in _SHARES."""
    table = text_styles(theme)
    out = [f"--{token}:{table[token].fg}" for token in _TOKENS]
    out += [f"--bg:{table['text'].bg}", f"--panel:{table['bg-panel'].bg}", f"--block:{table['block-bad'].fg}"]
    out += [f"--s-{name}:{_SHARES[name][index]}" for name in SHARES]
    return ";".join(out)


@cache
def style() -> str:
    """The whole style sheet."""
    light, dark = _variables("light", 1), _variables("dark", 0)
    shares = "".join(f".s-{name}{{fill:var(--s-{name})}}" for name in SHARES)
    return (
        f":root{{color-scheme:light dark;{light}}}\n"
        f"@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}\n{shares}\n{_LAYOUT}"
    )
