// Package diag reports what is wrong with a file a person wrote.
//
// A [Diagnostic] says where (a [Pos]), what, and what to type instead; a [List]
// collects them so that one run of a checker shows every problem at once. A
// [Source] keeps the text, so that a report can show the line with a caret.
// The package knows nothing of YAML, Markdown or CEL: its callers find the
// positions.
package diag

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Pos is a place in a file. Line and Col count from 1; Col counts characters,
// not bytes. Zero means unknown: a Pos with Line 0 stands for the whole file.
type Pos struct {
	File string
	Line int
	Col  int
}

// String returns file:line:col, leaving out what is unknown.
func (p Pos) String() string {
	switch {
	case p.Line == 0:
		return p.File
	case p.Col == 0:
		return fmt.Sprintf("%s:%d", p.File, p.Line)
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Col)
}

// Diagnostic is one problem: where it is, what it is, and, if there is
// something to type, a hint. Message and Hint are single lines.
type Diagnostic struct {
	Pos     Pos
	Message string
	Hint    string
}

// String returns the diagnostic as "pos: message", without the hint.
func (d Diagnostic) String() string {
	if d.Pos.File == "" && d.Pos.Line == 0 {
		return d.Message
	}
	return d.Pos.String() + ": " + d.Message
}

// List collects diagnostics. The zero value is empty and ready to use.
type List []Diagnostic

// Addf appends a problem without a hint.
func (l *List) Addf(pos Pos, format string, args ...any) {
	*l = append(*l, Diagnostic{Pos: pos, Message: fmt.Sprintf(format, args...)})
}

// AddHint appends a problem with what to type instead.
func (l *List) AddHint(pos Pos, hint, format string, args ...any) {
	*l = append(*l, Diagnostic{Pos: pos, Message: fmt.Sprintf(format, args...), Hint: hint})
}

// Sort orders the list by file, line, column and message, and drops repeats.
func (l *List) Sort() {
	slices.SortStableFunc(*l, func(a, b Diagnostic) int {
		return cmp.Or(
			cmp.Compare(a.Pos.File, b.Pos.File),
			cmp.Compare(a.Pos.Line, b.Pos.Line),
			cmp.Compare(a.Pos.Col, b.Pos.Col),
			cmp.Compare(a.Message, b.Message),
		)
	})
	*l = slices.Compact(*l)
}

// Err returns nil if the list is empty, and otherwise the sorted list as an
// error that [AsList] finds again.
func (l List) Err() error {
	if len(l) == 0 {
		return nil
	}
	l.Sort()
	return listError{l}
}

// AsList returns the diagnostics that err carries, if it carries any.
func AsList(err error) (List, bool) {
	var e listError
	if errors.As(err, &e) {
		return e.list, true
	}
	return nil, false
}

type listError struct{ list List }

// Error returns one line per diagnostic, each followed by its hint.
func (e listError) Error() string {
	var b strings.Builder
	for i, d := range e.list {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(d.String())
		if d.Hint != "" {
			b.WriteString("\n\thint: " + d.Hint)
		}
	}
	return b.String()
}
