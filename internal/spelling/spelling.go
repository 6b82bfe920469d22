// Package spelling tells how far a word is from one that may have been meant.
package spelling

// tooLong is from where on a word is no misspelling of anything; comparing would take long.
const tooLong = 64

// Distance returns how many insertions, deletions, replacements and swaps of neighbouring bytes turn a into b. Words of more than 64
// bytes are 64 away from everything.
func Distance(a, b string) int {
	if len(a) > tooLong || len(b) > tooLong {
		return tooLong
	}
	var before []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next := make([]int, len(b)+1)
		next[0] = i + 1
		for j := range len(b) {
			next[j+1] = min(next[j]+1, row[j+1]+1, row[j]+differ(a[i], b[j]))
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}

func differ(a, b byte) int {
	if a == b {
		return 0
	}
	return 1
}
