package markdown

import "strings"

// isSession reports whether a block shows a terminal session, prompts and
// output included. A shell block whose first line has a prompt is one too.
func isSession(lang, text string) bool {
	switch lang {
	case "console", "shell-session", "sh-session", "shellsession", "terminal":
		return true
	case "bash", "sh", "shell", "zsh", "":
		return strings.HasPrefix(strings.TrimLeft(text, "\n"), "$ ")
	}
	return false
}

// sessionLine is a line of a session: a command behind its prompt, which is "$ ",
// "> " or nothing on a continued line, or output.
type sessionLine struct {
	prompt, text string
	command      bool
}

func sessionLines(text string) []sessionLine {
	var out []sessionLine
	more := false
	for line := range strings.Lines(text) {
		l := sessionLine{text: strings.TrimSuffix(line, "\n")}
		switch {
		case strings.HasPrefix(l.text, "$ "):
			l.prompt, l.command = "$ ", true
		case more:
			l.command = true
			if strings.HasPrefix(l.text, "> ") {
				l.prompt = "> "
			}
		}
		l.text = strings.TrimPrefix(l.text, l.prompt)
		more = l.command && strings.HasSuffix(l.text, `\`)
		out = append(out, l)
	}
	return out
}

// commands returns what the copy button takes of a session: whole commands,
// without prompts and output.
func commands(text string) string {
	var out []string
	for _, l := range sessionLines(text) {
		if l.command {
			out = append(out, l.text)
		}
	}
	return strings.Join(out, "\n")
}

// writeSession writes a session with its prompts and output set apart, and its
// commands in the colours of a shell.
func writeSession(b *strings.Builder, text string) {
	for _, l := range sessionLines(text) {
		if l.prompt != "" {
			b.WriteString(`<span class="gp">` + escape(l.prompt) + `</span>`)
		}
		switch {
		case l.command:
			writeTokens(b, tokenise(l.text+"\n", "bash"))
		case l.text == "":
			b.WriteByte('\n')
		default:
			b.WriteString(`<span class="go">` + escape(l.text) + "</span>\n")
		}
	}
}
