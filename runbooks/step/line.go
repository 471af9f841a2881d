package step

import "strings"

// Line is something a person types: a command as an argument list, never as
// shell text. [Tokens] quotes it, in the one place where that is done.
type Line struct {
	// Note is a comment shown above the command.
	Note string
	// Assign names the shell variable that takes the command's output; Default
	// is used if that is empty, or if there is no command. Both may be "".
	Assign  string
	Default string
	// Env entries, NAME=value, are set for the command alone.
	Env []string
	// Words is the argument list. Words may hold markers.
	Words []string
	// Filter is a second command that the first one's output goes through.
	Filter []string
	// Stdin is given to the command, byte for byte.
	Stdin string
	// Each runs a command for every row the first one prints.
	Each *Loop
}

// Loop reads rows of space-separated values into shell variables, of which the
// last takes the rest of its row, and runs Do for each. Do refers to them with
// Mark(RowMark, name).
type Loop struct {
	Vars []string
	Do   []Line
}

// MarkKind says what a marker stands for.
type MarkKind byte

// The kinds of markers.
const (
	InputMark   MarkKind = 'i' // an input the reader fills in
	OutputMark  MarkKind = 'o' // an output of an earlier step, as step.name
	ContextMark MarkKind = 'c' // the kubeconfig context of a role
	RowMark     MarkKind = 'r' // a variable of the loop around the line
	FormulaMark MarkKind = 'f' // an expression that a person evaluates
)

// Markers are written with two private-use characters, which no name, path or
// manifest has a reason to hold; [Plain] removes them from foreign text.
const (
	markOpen  = "\ue000"
	markClose = "\ue001"
)

// Mark returns a marker: text that stands for a value only the reader knows.
func Mark(kind MarkKind, name string) string {
	return markOpen + string(kind) + Plain(name) + markClose
}

// HasMark reports whether s holds a marker.
func HasMark(s string) bool { return strings.Contains(s, markOpen) }

// Plain returns s without the characters that markers are made of.
func Plain(s string) string {
	return strings.NewReplacer(markOpen, "", markClose, "").Replace(s)
}

// Part is a stretch of text with or without a meaning: Kind is 0 for text, and
// else Name says what the marker stands for.
type Part struct {
	Kind MarkKind
	Name string // "clusterID", "find.ns", "local"; "" for text
	Text string // literal text, or what stands there until it is filled in
}

// Parts splits s into text and markers. The Text of a marker is how it is
// written for a person: <CLUSTER_ID>, $find_ns.
func Parts(s string) []Part {
	var parts []Part
	for s != "" {
		before, rest, found := strings.Cut(s, markOpen)
		if before != "" {
			parts = append(parts, Part{Text: before})
		}
		if !found {
			break
		}
		mark, after, closed := strings.Cut(rest, markClose)
		if closed && mark != "" {
			parts = append(parts, Part{Kind: MarkKind(mark[0]), Name: mark[1:], Text: placeholder(MarkKind(mark[0]), mark[1:])})
		}
		s = after
	}
	return parts
}

// Readable returns s with markers as a person reads them in prose.
func Readable(s string) string {
	var b strings.Builder
	for _, p := range Parts(s) {
		b.WriteString(p.Text)
	}
	return b.String()
}

func placeholder(kind MarkKind, name string) string {
	switch kind {
	case OutputMark, RowMark:
		return "$" + ShellName(name)
	case ContextMark:
		return "<" + constantCase(name) + "_CONTEXT>"
	case FormulaMark:
		return "<" + name + ">"
	}
	return "<" + constantCase(name) + ">"
}

// ShellName returns the shell variable that stands for an output: find.ns is
// find_ns.
func ShellName(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '.' || r == '-' {
			return '_'
		}
		return r
	}, name)
}

// constantCase turns clusterID and cluster-id into CLUSTER_ID.
func constantCase(name string) string {
	var b strings.Builder
	prevLower := false
	for _, r := range name {
		lower := r >= 'a' && r <= 'z' || r >= '0' && r <= '9'
		switch {
		case r == '-' || r == '.' || r == ' ':
			r = '_'
		case prevLower && r >= 'A' && r <= 'Z':
			b.WriteByte('_')
		}
		b.WriteRune(r)
		prevLower = lower
	}
	return strings.ToUpper(b.String())
}
