package diag

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// excerptWidth bounds the characters of a source line that a report shows, so
// that one very long line does not flood the screen.
const excerptWidth = 100

// Source is the text of one file, kept to show the lines that diagnostics
// point at.
type Source struct {
	Name string
	Text string
}

// Line returns line n, counted from 1, without its line ending, or "" if the
// file has no such line.
func (s Source) Line(n int) string {
	text := s.Text
	for ; n > 1; n-- {
		i := strings.IndexByte(text, '\n')
		if i < 0 {
			return ""
		}
		text = text[i+1:]
	}
	if i := strings.IndexByte(text, '\n'); i >= 0 {
		text = text[:i]
	}
	return strings.TrimSuffix(text, "\r")
}

// Excerpt returns the line at pos and a caret under its column, both indented
// by a tab, or "" if pos names no line of s. Control characters are shown as
// spaces, so that a file cannot steer the terminal.
func (s Source) Excerpt(pos Pos) string {
	line := strings.TrimPrefix(s.Line(pos.Line), "\ufeff")
	if pos.Line < 1 || strings.TrimSpace(line) == "" {
		return ""
	}
	line = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, line)
	runes := []rune(line)
	col := min(max(pos.Col, 1), len(runes)+1)
	start := 0
	if col > excerptWidth {
		start = col - excerptWidth/2
	}
	end := min(len(runes), start+excerptWidth)
	return fmt.Sprintf("\t%s\n\t%s^", string(runes[start:end]), strings.Repeat(" ", col-1-start))
}

// Col returns the column, in characters from 1, of the byte at offset in line.
func Col(line string, offset int) int {
	return utf8.RuneCountInString(line[:min(max(offset, 0), len(line))]) + 1
}

// Print writes the list to w: for each diagnostic its place and message, the
// source line with a caret where sources has the file, and the hint.
func Print(w io.Writer, list List, sources map[string]Source) {
	for _, d := range list {
		fmt.Fprintln(w, d)
		if src, ok := sources[d.Pos.File]; ok {
			if x := src.Excerpt(d.Pos); x != "" {
				fmt.Fprintln(w, x)
			}
		}
		if d.Hint != "" {
			fmt.Fprintf(w, "\thint: %s\n", d.Hint)
		}
	}
}
