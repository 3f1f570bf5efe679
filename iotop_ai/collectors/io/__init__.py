"""The only modules that open /proc and /sys, read clocks, start programs and listen for marks."""
