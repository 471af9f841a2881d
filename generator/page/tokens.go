package page

import (
	"html/template"
	"regexp"
	"strings"

	"rutter/runbooks/step"
)

// Token is a piece of a command. The texts of a command's tokens, put together,
// are what step.Shell returns for it.
type Token struct {
	Text  string
	Class string // of the style sheet, "" for none
	Var   string // the field that fills it in, "" for none
	// Quote says how the shell will read what is filled in: b bare, s within
	// single quotes, h in a here-document, x in one that expands.
	Quote string
}

// HTML returns the text with places to break a long list of names; the text
// content of the page stays the command, to the byte.
func (t Token) HTML() template.HTML {
	return template.HTML(strings.ReplaceAll(template.HTMLEscapeString(t.Text), ",", ",<wbr>"))
}

// lines splits tokens into lines, each with its newline, so that the page can
// indent what it wraps.
func lines(ts []Token) [][]Token {
	out := [][]Token{nil}
	for _, t := range ts {
		for piece := range strings.SplitAfterSeq(t.Text, "\n") {
			if piece == "" {
				continue
			}
			last := len(out) - 1
			t.Text = piece
			out[last] = append(out[last], t)
			if strings.HasSuffix(piece, "\n") {
				out = append(out, nil)
			}
		}
	}
	if n := len(out) - 1; out[n] == nil {
		out = out[:n]
	}
	return out
}

// tokens adds to the pieces of a command what the page needs.
func tokens(parts []step.Part) []Token {
	var ts []Token
	q := quoting{lineStart: true}
	for _, p := range parts {
		switch p.Kind {
		case 0:
			ts = append(ts, colour(p.Text, &q)...)
			continue
		case step.InputMark:
			ts = append(ts, Token{Text: p.Text, Var: inputVar(p.Name), Quote: q.state()})
		case step.ContextMark:
			ts = append(ts, Token{Text: p.Text, Var: contextVar(p.Name), Quote: q.state()})
		default:
			ts = append(ts, Token{Text: p.Text, Class: "o"})
		}
		q.lineStart = false
	}
	return ts
}

// colour splits shell text into comments, commands and the rest.
func colour(text string, q *quoting) []Token {
	var ts []Token
	for line := range strings.SplitAfterSeq(text, "\n") {
		if line == "" {
			continue
		}
		plain := !q.inHere() && !q.single
		begins := q.lineStart
		q.read(line)
		trimmed := strings.TrimLeft(line, " ")
		indent := line[:len(line)-len(trimmed)]
		switch command, _, _ := strings.Cut(trimmed, " "); {
		case plain && begins && strings.HasPrefix(trimmed, "#"):
			ts = append(ts, Token{Text: line, Class: "c"})
		case plain && begins && (command == "kubectl" || command == "rutter"):
			ts = append(ts, Token{Text: indent}, Token{Text: command, Class: "k"}, Token{Text: line[len(indent)+len(command):]})
		default:
			ts = append(ts, Token{Text: line})
		}
	}
	return merge(ts)
}

// merge joins neighbours that look alike.
func merge(ts []Token) []Token {
	var out []Token
	for _, t := range ts {
		if t.Text == "" {
			continue
		}
		if n := len(out); n > 0 && out[n-1].Class == t.Class && out[n-1].Var == "" && t.Var == "" {
			out[n-1].Text += t.Text
			continue
		}
		out = append(out, t)
	}
	return out
}

// quoting follows what step.Tokens wrote, to know how the shell reads what comes
// next. It understands that output alone, not shell in general.
type quoting struct {
	single    bool
	here      string // the word that ends the here-document, "" outside of one
	expands   bool
	lineStart bool
}

var hereRE = regexp.MustCompile(`<<('?)(EOF_*)'?\)?\n?$`)

func (q *quoting) inHere() bool { return q.here != "" }

func (q *quoting) state() string {
	switch {
	case q.inHere() && q.expands:
		return "x"
	case q.inHere():
		return "h"
	case q.single:
		return "s"
	}
	return "b"
}

// read takes one line of text, or the part of one up to a marker.
func (q *quoting) read(line string) {
	ends := strings.HasSuffix(line, "\n")
	if q.inHere() {
		if q.lineStart && strings.TrimSuffix(line, "\n") == q.here {
			q.here = ""
		}
		q.lineStart = ends
		return
	}
	if q.lineStart && !q.single && strings.HasPrefix(strings.TrimLeft(line, " "), "#") {
		q.lineStart = ends
		return
	}
	if m := hereRE.FindStringSubmatch(line); m != nil && !q.single && ends {
		q.here, q.expands = m[2], m[1] == ""
		q.lineStart = true
		return
	}
	if strings.Count(strings.ReplaceAll(line, `\'`, ""), "'")%2 == 1 {
		q.single = !q.single
	}
	q.lineStart = ends && !q.single && !strings.HasSuffix(line, "\\\n")
}
