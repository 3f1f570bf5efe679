"""Self-contained HTML files that load nothing: markup, style and charts as inline SVG."""
