"""What every room uses: errors, words that were meant, paths, files held by one process."""
