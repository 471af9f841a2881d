package diag

import (
	"slices"
	"strconv"
	"strings"
)

// Nearest returns the candidate that word was most likely meant to be, or ""
// if none is close: equal but for case, - and _, or within a third of the
// word's length in single-character edits and swaps. Ties go to the first in
// alphabetical order.
func Nearest(word string, candidates []string) string {
	sorted := slices.Sorted(slices.Values(candidates))
	for _, c := range sorted {
		if fold(c) == fold(word) {
			return c
		}
	}
	n := len([]rune(word))
	// A word of one letter is as near to any other of one letter.
	best, bestDist := "", min(max(1, n/3)+1, n)
	for _, c := range sorted {
		if d := distance([]rune(strings.ToLower(word)), []rune(strings.ToLower(c))); d < bestDist {
			best, bestDist = c, d
		}
	}
	return best
}

// DidYouMean returns a hint naming the nearest candidate, else the candidates
// themselves if they are few, else "".
func DidYouMean(word string, candidates []string) string {
	if near := Nearest(word, candidates); near != "" {
		return "did you mean " + strconv.Quote(near) + "?"
	}
	if len(candidates) == 0 || len(candidates) > 24 {
		return ""
	}
	return "known here: " + strings.Join(slices.Sorted(slices.Values(candidates)), ", ")
}

func fold(s string) string {
	return strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(s))
}

// distance is the optimal string alignment distance: insertions, deletions,
// substitutions and swaps of neighbours each cost one.
func distance(a, b []rune) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			d := min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, rows[i-2][j-2]+1)
			}
			rows[i][j] = d
		}
	}
	return rows[len(a)][len(b)]
}
