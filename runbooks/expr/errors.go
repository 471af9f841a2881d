package expr

import (
	"cmp"
	"slices"
	"strings"
)

// Error is one problem of an expression or a template.
type Error struct {
	Offset  int    // in bytes from the start of the source
	Message string // one line, lower case, no full stop
	Hint    string // what to type instead, or ""

	// Ref is the full dotted name that is not declared, if that is the
	// problem; a caller that knows more about it may replace Message.
	Ref string
}

// Error returns the message without the hint.
func (e *Error) Error() string { return e.Message }

// Errors are all problems found in one source, in the order of their offsets.
// [Env.Compile] and [Env.Template] return their errors as Errors; errors.As
// finds it.
type Errors []*Error

// Error returns the messages, separated by semicolons.
func (es Errors) Error() string {
	texts := make([]string, len(es))
	for i, e := range es {
		texts[i] = e.Message
	}
	return strings.Join(texts, "; ")
}

// err sorts es, drops repeats, and returns nil if nothing is left.
func (es Errors) err() error {
	if len(es) == 0 {
		return nil
	}
	slices.SortStableFunc(es, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Message, b.Message))
	})
	return slices.CompactFunc(es, func(a, b *Error) bool { return *a == *b })
}
