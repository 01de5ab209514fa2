"""Measurements: ours and the rivals' side by side, in one run on one machine.

`python -m bench` runs all of them (`make bench`); `python -m bench cpu|speculation|router` one.
Each prints a table and writes `bench/results/<name>.json` and `.md`,
and the README shows the last ones. Comparisons are interleaved
pairs whose order is swapped, the figure is the median of their ratios with a bootstrap interval.
"""
