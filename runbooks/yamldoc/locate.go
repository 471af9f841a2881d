package yamldoc

import (
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"rutter/runbooks/diag"
)

// Locate returns where the byte at offset of a scalar's value stands in src,
// whose text is as [Normalize] leaves it. It is exact for plain, quoted and
// literal (|) scalars; in folded text the line is exact and the column is that
// of the scalar where folding makes it ambiguous.
func Locate(src diag.Source, n *yaml.Node, offset int) diag.Pos {
	pos := diag.Pos{File: src.Name, Line: n.Line, Col: n.Column}
	offset = min(max(offset, 0), len(n.Value))
	switch {
	case n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		return locateBlock(src, n, offset)
	case n.Style&yaml.DoubleQuotedStyle != 0:
		return walkQuoted(src, n, offset, doubleQuoted)
	case n.Style&yaml.SingleQuotedStyle != 0:
		return walkQuoted(src, n, offset, singleQuoted)
	}
	if !strings.Contains(src.Line(n.Line), firstLine(n.Value)) {
		return pos
	}
	pos.Col += utf8.RuneCountInString(n.Value[:offset])
	return pos
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}

// locateBlock handles | and >: the value's lines follow the line of the
// indicator, all indented by what the first of them is.
func locateBlock(src diag.Source, n *yaml.Node, offset int) diag.Pos {
	line := n.Line + 1
	last := strings.Count(src.Text, "\n") + 1
	for line < last && strings.TrimSpace(src.Line(line)) == "" {
		line++
	}
	first := src.Line(line)
	indent := len(first) - len(strings.TrimLeft(first, " "))
	if n.Style&yaml.FoldedStyle != 0 {
		return locateFolded(src, n, offset, line, indent)
	}
	before := n.Value[:offset]
	start := strings.LastIndexByte(before, '\n') + 1
	return diag.Pos{
		File: src.Name,
		Line: n.Line + 1 + strings.Count(before, "\n"),
		Col:  indent + 1 + utf8.RuneCountInString(before[start:]),
	}
}

// locateFolded counts words, since folding keeps those and their order.
func locateFolded(src diag.Source, n *yaml.Node, offset, line, indent int) diag.Pos {
	words := len(strings.Fields(n.Value[:offset]))
	inWord := 0
	if offset > 0 && !strings.ContainsAny(n.Value[offset-1:offset], " \n") {
		words--
		inWord = offset - strings.LastIndexAny(n.Value[:offset], " \n") - 1
	}
	for i := line; i <= strings.Count(src.Text, "\n")+1; i++ {
		text := src.Line(i)
		fields := strings.Fields(text)
		if words < len(fields) {
			at := 0
			for k := 0; k <= words; k++ {
				at += strings.Index(text[at:], fields[k])
				if k < words {
					at += len(fields[k])
				}
			}
			return diag.Pos{File: src.Name, Line: i, Col: diag.Col(text, at+inWord)}
		}
		words -= len(fields)
	}
	return diag.Pos{File: src.Name, Line: line, Col: indent + 1}
}

// doubleQuoted returns how many bytes of source the next bytes of value take,
// and how many bytes of value those are.
func doubleQuoted(s string) (source, value int) {
	if s[0] != '\\' || len(s) < 2 {
		_, size := utf8.DecodeRuneInString(s)
		return size, size
	}
	switch s[1] {
	case 'x':
		return 4, 1
	case 'u':
		return 6, len(string(hexRune(s, 2, 6)))
	case 'U':
		return 10, len(string(hexRune(s, 2, 10)))
	case 'N', '_':
		return 2, 2
	case 'L', 'P':
		return 2, 3
	}
	return 2, 1
}

func singleQuoted(s string) (source, value int) {
	if strings.HasPrefix(s, "''") {
		return 2, 1
	}
	_, size := utf8.DecodeRuneInString(s)
	return size, size
}

func hexRune(s string, from, to int) rune {
	var r rune
	for i := from; i < to && i < len(s); i++ {
		r = r<<4 | rune(strings.IndexByte("0123456789abcdef", s[i]|0x20))
	}
	return r
}

// walkQuoted walks the source of a quoted scalar. One that goes over several
// lines is only placed on its first.
func walkQuoted(src diag.Source, n *yaml.Node, offset int, next func(string) (int, int)) diag.Pos {
	line := src.Line(n.Line)
	at := byteAt(line, n.Column) + 1
	for done := 0; done < offset; {
		if at >= len(line) {
			return diag.Pos{File: src.Name, Line: n.Line, Col: n.Column}
		}
		s, v := next(line[at:])
		at += s
		done += v
	}
	return diag.Pos{File: src.Name, Line: n.Line, Col: diag.Col(line, at)}
}

// byteAt returns the byte index of character col, counted from 1.
func byteAt(line string, col int) int {
	at := 0
	for i := 1; i < col && at < len(line); i++ {
		_, size := utf8.DecodeRuneInString(line[at:])
		at += size
	}
	return at
}
