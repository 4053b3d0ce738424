"""Programs for those who work on dmlax: benchmarks, random graphs, files of packages, wheels."""
