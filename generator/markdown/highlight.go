package markdown

import (
	"fmt"
	"strings"

	"github.com/alecthomas/chroma/v2"
	"github.com/alecthomas/chroma/v2/lexers"
)

// maxHighlight bounds what is coloured: past it a block is shown plain, since
// a lexer may need time that grows faster than its input.
const maxHighlight = 256 << 10

// Highlight returns a code block in a language that chroma knows, with a head
// and a copy button, as it stands on a page. Colours are classes of the style
// sheet; an unknown language is shown plain.
func Highlight(text, lang, title string) string {
	return codeBlock(text, codeOptions{lang: lang, title: title})
}

// writeHighlighted writes the text as spans. Lines are wrapped only where some
// are numbered or stressed.
func writeHighlighted(b *strings.Builder, text string, o codeOptions) {
	if isSession(o.lang, text) && o.first == 0 && len(o.marks) == 0 {
		writeSession(b, text)
		return
	}
	tokens := tokenise(text, o.lang)
	if o.first == 0 && len(o.marks) == 0 {
		writeTokens(b, tokens)
		return
	}
	for i, line := range chroma.SplitTokensIntoLines(tokens) {
		class := "line"
		for _, m := range o.marks {
			if i+1 >= m[0] && i+1 <= m[1] {
				class = "line hl"
			}
		}
		fmt.Fprintf(b, `<span class="%s"`, class)
		if o.first > 0 {
			fmt.Fprintf(b, ` data-n="%d"`, o.first+i)
		}
		b.WriteByte('>')
		writeTokens(b, line)
		b.WriteString("</span>")
	}
}

func tokenise(text, lang string) []chroma.Token {
	lexer := lexers.Get(lang)
	if lang == "" || lexer == nil || len(text) > maxHighlight {
		return []chroma.Token{{Type: chroma.Text, Value: text}}
	}
	it, err := chroma.Coalesce(lexer).Tokenise(&chroma.TokeniseOptions{State: "root"}, text)
	if err != nil {
		return []chroma.Token{{Type: chroma.Text, Value: text}}
	}
	return it.Tokens()
}

func writeTokens(b *strings.Builder, tokens []chroma.Token) {
	for _, t := range tokens {
		class := tokenClass(t.Type)
		if class == "" || strings.TrimSpace(t.Value) == "" {
			b.WriteString(escape(t.Value))
			continue
		}
		b.WriteString(`<span class="` + class + `">`)
		b.WriteString(escape(t.Value))
		b.WriteString("</span>")
	}
}

// tokenClass folds chroma's kinds of token to the few that the style sheet
// colours: fewer spans, smaller pages.
func tokenClass(t chroma.TokenType) string {
	switch {
	case t.InCategory(chroma.Comment):
		return "c"
	case t == chroma.NameTag, t == chroma.NameAttribute, t.InCategory(chroma.Keyword):
		return "k"
	case t.InSubCategory(chroma.LiteralString):
		return "s"
	case t.InSubCategory(chroma.LiteralNumber):
		return "m"
	case t == chroma.NameVariable, t == chroma.LiteralStringInterpol:
		return "nv"
	case t == chroma.NameBuiltin, t == chroma.NameFunction:
		return "nb"
	case t == chroma.GenericPrompt:
		return "gp"
	case t == chroma.GenericOutput:
		return "go"
	case t == chroma.GenericDeleted:
		return "gd"
	case t == chroma.GenericInserted:
		return "gi"
	case t == chroma.Error:
		return "err"
	}
	return ""
}
