package shell

import (
	"fmt"
	"slices"
	"strings"
)

// Line is what follows the options on a command line of GNU parallel: a command and lists of arguments for it, as in
// gzip -9 {} ::: a b. Several lists make all combinations of their elements.
type Line struct {
	Command []string
	Lists   []List
}

// List is one of the lists of a Line.
type List struct {
	// Words are the elements, or with File the name of the one file that has them. The name - is the standard input.
	Words []string
	File  bool

	// Linked means that the elements go with those of the list before, one by one.
	Linked bool
}

// maxCombinations bounds what several lists can make, since all of it is kept in the workflow of a job.
const maxCombinations = 100_000

// ReadLine splits words at ::: and ::::, which begin a list of elements and one of files, and at :::+ and ::::+, whose
// lists are linked to the one before.
func ReadLine(words []string) Line {
	var l Line
	next := List{}
	for _, word := range words {
		marker, linked := strings.CutSuffix(word, "+")
		switch {
		case marker == ":::" || marker == "::::":
			next = List{File: marker == "::::", Linked: linked && l.Lists != nil}
			if !next.File {
				l.Lists = append(l.Lists, next)
			}
		case next.File:
			next.Words = []string{word}
			l.Lists = append(l.Lists, next)
		case l.Lists == nil:
			l.Command = append(l.Command, word)
		default:
			last := &l.Lists[len(l.Lists)-1]
			last.Words = append(last.Words, word)
		}
	}
	return l
}

// Rows returns the combinations of the lists, each with one element of every list; the last list changes fastest. A
// linked list ends with the shorter of the two, but if link is set all lists are linked, and the shorter ones begin
// again. read returns the elements of a file.
func (l Line) Rows(link bool, read func(file string) ([]string, error)) ([][]string, error) {
	var groups [][][]string
	for i, list := range l.Lists {
		words := list.Words
		if list.File {
			var err error
			if words, err = read(words[0]); err != nil {
				return nil, err
			}
		}
		if i > 0 && (list.Linked || link) {
			last := len(groups) - 1
			groups[last] = linked(groups[last], words, link)
			continue
		}
		groups = append(groups, slices.Collect(slices.Chunk(words, 1)))
	}
	rows := [][]string{nil}
	for _, group := range groups {
		if len(rows)*len(group) > maxCombinations {
			return nil, fmt.Errorf("the lists have more than %d combinations: write these to a file, separated by tabs, "+
				"and use -a FILE --colsep '\\t'", maxCombinations)
		}
		longer := [][]string{}
		for _, row := range rows {
			for _, more := range group {
				longer = append(longer, slices.Concat(row, more))
			}
		}
		rows = longer
	}
	return rows, nil
}

// linked adds a word to each row. The shorter of the two begins again if wrap is set, and else ends the result.
func linked(rows [][]string, words []string, wrap bool) [][]string {
	n := min(len(rows), len(words))
	if wrap && n > 0 {
		n = max(len(rows), len(words))
	}
	longer := make([][]string, n)
	for i := range longer {
		longer[i] = slices.Concat(rows[i%len(rows)], words[i%len(words):i%len(words)+1])
	}
	return longer
}
