"""The tests: one folder for each layer, and the benchmarks."""
