package step

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// lineWidth is where a command is broken before its next flag.
const lineWidth = 92

// hereEnd closes here-documents. A manifest line that equals it would end the
// document early, so [hereTokens] picks another word then.
const hereEnd = "EOF"

// Shell returns the lines as a person would paste them into a POSIX shell.
// Every kubectl command gets the context, unless that is "".
func Shell(lines []Line, context string) string {
	var b strings.Builder
	for _, t := range Tokens(lines, context) {
		b.WriteString(t.Text)
	}
	return b.String()
}

// Tokens is Shell in pieces, so that a page can mark what the reader fills in.
// The pieces' texts, put together, are exactly what Shell returns.
func Tokens(lines []Line, context string) []Part {
	w := &shellWriter{context: context}
	for i, l := range lines {
		if i > 0 {
			w.text("\n")
		}
		w.line(l, "")
	}
	return w.parts
}

type shellWriter struct {
	context string
	parts   []Part
}

func (w *shellWriter) text(s string) {
	if n := len(w.parts); n > 0 && w.parts[n-1].Kind == 0 {
		w.parts[n-1].Text += s
		return
	}
	w.parts = append(w.parts, Part{Text: s})
}

func (w *shellWriter) line(l Line, indent string) {
	for _, note := range strings.Split(l.Note, "\n") {
		if note != "" {
			w.text(indent + "# " + Readable(note) + "\n")
		}
	}
	if len(l.Words) == 0 {
		w.assignment(l, indent)
		return
	}
	w.text(indent)
	if l.Assign != "" {
		w.text(ShellName(l.Assign) + "=$(")
	}
	// A here-document always ends in a line break, and a program that reads a
	// token or a password takes that for a part of it.
	here := strings.HasSuffix(l.Stdin, "\n")
	if l.Stdin != "" && !here {
		w.text("printf %s ")
		w.word(l.Stdin)
		w.text(" | ")
	}
	for _, env := range l.Env {
		name, value, _ := strings.Cut(env, "=")
		w.text(name + "=")
		w.word(value)
		w.text(" ")
	}
	w.words(l.Words, indent)
	if here {
		w.text(" <<" + hereWord(l.Stdin))
	}
	if len(l.Filter) > 0 {
		w.text(" | ")
		w.words(l.Filter, indent)
	}
	if l.Each != nil {
		w.text(" |")
	}
	if here {
		w.hereDocument(l.Stdin)
	}
	w.closeAssignment(l, here, indent)
	if l.Each != nil {
		w.loop(l.Each, indent)
	}
}

// closeAssignment ends the command substitution. A here-document has to end
// inside of it: where it begins after the parenthesis, shells disagree.
func (w *shellWriter) closeAssignment(l Line, here bool, indent string) {
	if l.Assign == "" {
		return
	}
	if here {
		w.text("\n")
	}
	w.text(")")
	if l.Default != "" {
		name := ShellName(l.Assign)
		w.text("\n" + indent + name + "=${" + name + ":-")
		w.word(l.Default)
		w.text("}")
	}
}

// assignment writes a line without a command: a variable set to its default,
// or only a note.
func (w *shellWriter) assignment(l Line, indent string) {
	if l.Assign == "" {
		w.trimNewline()
		return
	}
	w.text(indent + ShellName(l.Assign) + "=")
	w.word(l.Default)
}

// trimNewline takes back the line break after a note that nothing follows.
func (w *shellWriter) trimNewline() {
	if n := len(w.parts); n > 0 && w.parts[n-1].Kind == 0 {
		w.parts[n-1].Text = strings.TrimSuffix(w.parts[n-1].Text, "\n")
	}
}

func (w *shellWriter) loop(l *Loop, indent string) {
	w.text("\n" + indent + "while read -r")
	for _, v := range l.Vars {
		w.text(" " + ShellName(v))
	}
	w.text("; do\n")
	for _, do := range l.Do {
		w.line(do, indent+"  ")
		w.text("\n")
	}
	w.text(indent + "done")
}

// words writes an argument list, broken before a flag where it grows long.
func (w *shellWriter) words(words []string, indent string) {
	if len(words) > 0 && words[0] == "kubectl" && w.context != "" {
		words = append([]string{"kubectl", "--context", w.context}, words[1:]...)
	}
	width := len(indent)
	for i, word := range words {
		size := quotedWidth(word)
		switch {
		case i == 0:
		case strings.HasPrefix(word, "-") && word != "-" && width+size+valueWidth(words[i:]) > lineWidth:
			w.text(" \\\n" + indent + "  ")
			width = len(indent) + 2
		default:
			w.text(" ")
		}
		if i == 0 && (strings.Contains(word, "=") || slices.Contains(reserved, word)) {
			w.quoted(word) // a bare name=value would be an assignment
		} else {
			w.word(word)
		}
		width += size + 1
	}
}

// valueWidth is the width of the value that follows a flag, so that the two
// stay on one line.
func valueWidth(words []string) int {
	if len(words) < 2 || strings.Contains(words[0], "=") || strings.HasPrefix(words[1], "-") && words[1] != "-" {
		return 0
	}
	return 1 + quotedWidth(words[1])
}

// quotedWidth is the width of a word as written, up to its first line break.
func quotedWidth(word string) int {
	w := &shellWriter{}
	w.word(word)
	n := 0
	for _, p := range w.parts {
		line, _, broken := strings.Cut(p.Text, "\n")
		n += utf8.RuneCountInString(line)
		if broken {
			break
		}
	}
	return n
}

// safeRE is text that POSIX shells take as it stands, and zsh too, which looks
// up the program named after a leading equals sign.
var safeRE = regexp.MustCompile(`^[A-Za-z0-9_@%+:,./-][A-Za-z0-9_@%+=:,./-]*$`)

// reserved are the words that begin a construct where a command begins, in
// POSIX shells and in those that people use instead.
var reserved = []string{"case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "foreach", "function", "if", "in",
	"nocorrect", "noglob", "repeat", "select", "then", "time", "until", "while"}

// word writes one argument. Text that a shell would read otherwise goes into
// single quotes, with what the reader fills in, since that is typed over; shell
// variables go into double quotes outside of them.
func (w *shellWriter) word(word string) {
	quote := false
	for _, p := range Parts(word) {
		quote = quote || p.Kind == 0 && !safeRE.MatchString(p.Text)
	}
	if word == "" || quote {
		w.quoted(word)
		return
	}
	for _, p := range Parts(word) {
		switch {
		case p.isShellVariable():
			w.variable(p)
		case p.Kind != 0:
			w.parts = append(w.parts, p)
		default:
			w.text(p.Text)
		}
	}
}

// quoted writes one argument in single quotes, left for shell variables only.
func (w *shellWriter) quoted(word string) {
	if word == "" {
		w.text("''")
	}
	open := false
	toggle := func(on bool) {
		if open != on {
			w.text("'")
			open = on
		}
	}
	for _, p := range Parts(word) {
		switch {
		case p.isShellVariable():
			toggle(false)
			w.variable(p)
		case p.Kind != 0:
			toggle(true)
			w.parts = append(w.parts, p)
		default:
			toggle(true)
			w.text(strings.ReplaceAll(p.Text, "'", `'\''`))
		}
	}
	toggle(false)
}

func (w *shellWriter) variable(p Part) {
	w.text(`"`)
	w.parts = append(w.parts, p)
	w.text(`"`)
}

func (p Part) isShellVariable() bool { return p.Kind == OutputMark || p.Kind == RowMark }

// hereWord returns the word that opens a here-document for text: quoted where
// the shell need expand nothing.
func hereWord(text string) string {
	word := hereEnd
	for strings.Contains("\n"+text+"\n", "\n"+word+"\n") {
		word += "_"
	}
	for _, p := range Parts(text) {
		if p.isShellVariable() {
			return word
		}
	}
	return "'" + word + "'"
}

func (w *shellWriter) hereDocument(text string) {
	word := hereWord(text)
	expands := word[0] != '\''
	w.text("\n")
	for _, p := range Parts(text) {
		switch {
		case p.isShellVariable():
			w.parts = append(w.parts, Part{Kind: p.Kind, Name: p.Name, Text: "${" + ShellName(p.Name) + "}"})
		case p.Kind != 0:
			w.parts = append(w.parts, p)
		case expands:
			w.text(strings.NewReplacer(`\`, `\\`, "$", `\$`, "`", "\\`").Replace(p.Text))
		default:
			w.text(p.Text)
		}
	}
	w.text(strings.Trim(word, "'"))
}
