package cli

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"rutter/executor"
	"rutter/runbooks/runbook"
	"rutter/runbooks/step"
)

// style writes text to people: with colour where there is a terminal, without
// control characters from elsewhere in any case.
type style struct {
	w     io.Writer
	color bool
}

// The colours that outputs use.
const (
	bold   = "1"
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
	blue   = "36"
)

func (s style) paint(code, text string) string {
	text = printable(text)
	if !s.color || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s style) linef(format string, args ...any) { fmt.Fprintf(s.w, format+"\n", args...) }

// block writes text indented, line by line.
func (s style) block(indent, code, text string) {
	for _, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		s.linef("%s%s", indent, s.paint(code, line))
	}
}

// marks are the signs in front of findings.
var marks = map[runbook.Level]string{runbook.Fail: "✗", runbook.Warn: "!", runbook.Pass: "✓"}

func levelColor(l runbook.Level) string {
	return map[runbook.Level]string{runbook.Fail: red, runbook.Warn: yellow, runbook.Pass: green}[l]
}

func effectColor(e step.Effect) string {
	return map[step.Effect]string{step.Reads: green, step.RunsHere: blue, step.Changes: yellow, step.Destroys: red}[e]
}

func (s style) findings(indent string, found []executor.Finding) {
	for _, f := range found {
		s.linef("%s%s %s", indent, s.paint(levelColor(f.Level), marks[f.Level]), printable(oneLine(f.Message)))
		if f.Fix != "" {
			s.linef("%s  %s", indent, printable("→ "+oneLine(f.Fix)))
		}
	}
}

// oneLine folds text that was written over several lines.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// commands writes the lines a person would type, as one could paste them.
func (s style) commands(indent string, lines []step.Line, context string) {
	if len(lines) > 0 {
		s.block(indent, dim, step.Shell(lines, context))
	}
}

// table writes rows in columns as wide as their contents.
func (s style) table(indent string, t *step.Table) {
	if t == nil || len(t.Rows) == 0 {
		return
	}
	widths := make([]int, len(t.Head))
	for _, row := range append([][]string{t.Head}, t.Rows...) {
		for i, cell := range row {
			if i < len(widths) {
				widths[i] = max(widths[i], utf8.RuneCountInString(printable(cell)))
			}
		}
	}
	write := func(row []string, code string) {
		var b strings.Builder
		for i, cell := range row {
			cell = strings.ReplaceAll(printable(cell), "\n", " ")
			b.WriteString(cell)
			if i < len(row)-1 && i < len(widths) {
				b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2))
			}
		}
		s.linef("%s%s", indent, s.paint(code, strings.TrimRight(b.String(), " ")))
	}
	write(t.Head, bold)
	for _, row := range t.Rows {
		write(row, "0")
	}
}
