package markdown

import (
	"bytes"
	"sort"
	"strings"

	"rutter/runbooks/diag"
)

// lines maps byte offsets of the text that is parsed to places in the file.
type lines struct {
	file      string
	text      []byte
	starts    []int // offset at which each line begins
	line, col int   // what to add to a place in text
}

// newLines normalizes the source: no byte order mark, LF line endings, U+FFFD
// for NUL and for bytes that are no UTF-8, and a newline at the end.
func newLines(src Source) *lines {
	s := strings.TrimPrefix(src.Text, "\ufeff")
	s = strings.ReplaceAll(s, "\r\n", "\n")
	s = strings.ReplaceAll(s, "\r", "\n")
	s = strings.ReplaceAll(s, "\x00", "\ufffd")
	s = strings.ToValidUTF8(s, "\ufffd")
	if s != "" && !strings.HasSuffix(s, "\n") {
		s += "\n"
	}
	l := &lines{file: src.File, text: []byte(s), line: max(src.Line, 1) - 1, col: src.Col, starts: []int{0}}
	for i, b := range l.text {
		if b == '\n' {
			l.starts = append(l.starts, i+1)
		}
	}
	return l
}

// pos returns the place of an offset; a negative one is the file as a whole.
func (l *lines) pos(offset int) diag.Pos {
	if offset < 0 || offset > len(l.text) {
		return diag.Pos{File: l.file}
	}
	i := sort.SearchInts(l.starts, offset+1) - 1
	start := l.starts[i]
	end := len(l.text)
	if n := bytes.IndexByte(l.text[start:], '\n'); n >= 0 {
		end = start + n
	}
	return diag.Pos{
		File: l.file,
		Line: l.line + i + 1,
		Col:  l.col + diag.Col(string(l.text[start:end]), offset-start),
	}
}
