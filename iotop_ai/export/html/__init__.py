"""One self-contained HTML file: markup, style, charts as inline SVG. It loads nothing."""
