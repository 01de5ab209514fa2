"""`make kube-e2e`: the chart on a real API server, and its pods acted out by real processes."""
