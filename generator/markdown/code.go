package markdown

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/util"

	"rutter/runbooks/diag"
)

// codeNode is a code block, fenced or indented, ready to be shown.
type codeNode struct {
	ast.BaseBlock
	text string
	opts codeOptions
}

// codeOptions are what the info string of a fence says:
//
//	```yaml {hl_lines=[2,"4-5"] linenos=true linenostart=100 title="values.yaml"}
type codeOptions struct {
	lang  string
	title string
	marks [][2]int // lines to stress, counted from 1 within the block
	first int      // number of the first line; 0 means no numbers
}

var kindCode = ast.NewNodeKind("Code")

// Kind implements ast.Node.
func (c *codeNode) Kind() ast.NodeKind { return kindCode }

// Dump implements ast.Node.
func (c *codeNode) Dump(source []byte, level int) {
	ast.DumpHelper(c, source, level, map[string]string{"lang": c.opts.lang}, nil)
}

// code replaces the code blocks of goldmark with this package's.
func code(st *state, doc *ast.Document, source []byte) {
	each(doc, func(n *ast.FencedCodeBlock) {
		info := ""
		if n.Info != nil {
			info = string(n.Info.Segment.Value(source))
		}
		c := &codeNode{text: string(n.Lines().Value(source)), opts: st.codeOptions(st.pos(n), info)}
		become(n, c)
	})
	each(doc, func(n *ast.CodeBlock) {
		become(n, &codeNode{text: string(n.Lines().Value(source))})
	})
}

var (
	codeInfo  = regexp.MustCompile(`^(?:\{([\w-]+)\}[ \t]*)?([^\s{]*)[ \t]*(?:\{(.*)\})?`)
	codeAttr  = regexp.MustCompile(`([\w-]+)=("[^"]*"|\[[^\]]*\]|[^\s,]+)`)
	lineRange = regexp.MustCompile(`(\d+)(?:-(\d+))?`)
)

func (st *state) codeOptions(pos diag.Pos, info string) codeOptions {
	m := codeInfo.FindStringSubmatch(info)
	if m == nil {
		return codeOptions{}
	}
	if m[1] != "" && m[1] != "code-block" && m[1] != "code" {
		st.diags.AddHint(pos, diag.DidYouMean(m[1], directiveNames()), "unknown directive {%s}", m[1])
	}
	o := codeOptions{lang: strings.ToLower(m[2])}
	for _, kv := range codeAttr.FindAllStringSubmatch(m[3], -1) {
		value := strings.Trim(kv[2], `"`)
		switch kv[1] {
		case "hl_lines":
			o.marks = append(o.marks, lineRanges(value)...)
		case "linenos":
			if value != "false" {
				o.first = max(o.first, 1)
			}
		case "linenostart":
			if n, err := strconv.Atoi(value); err == nil && n > 0 {
				o.first = n
			}
		case "title":
			o.title = value
		default:
			known := []string{"hl_lines", "linenos", "linenostart", "title"}
			st.diags.AddHint(pos, diag.DidYouMean(kv[1], known), "unknown attribute %q of a code block", kv[1])
		}
	}
	return o
}

func lineRanges(s string) [][2]int {
	var out [][2]int
	for _, m := range lineRange.FindAllStringSubmatch(s, -1) {
		from, err := strconv.Atoi(m[1])
		to := from
		if m[2] != "" && err == nil {
			to, err = strconv.Atoi(m[2])
		}
		if err == nil {
			out = append(out, [2]int{from, to})
		}
	}
	return out
}

func renderCode(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if c, ok := n.(*codeNode); ok && entering {
		_, _ = w.WriteString(codeBlock(c.text, c.opts))
	}
	return ast.WalkSkipChildren, nil
}

// codeBlock is a code block with its head: what it is, and a copy button. Where
// the text is more than commands, the commands stand in data-copy.
func codeBlock(text string, o codeOptions) string {
	var b strings.Builder
	b.WriteString(`<div class="block"`)
	if isSession(o.lang, text) {
		b.WriteString(attr("data-copy", commands(text)))
	}
	label := o.title
	if label == "" {
		label = o.lang
	}
	if label == "" {
		label = "text"
	}
	b.WriteString(`><div class="head"><span>`)
	b.WriteString(escape(label))
	b.WriteString(`</span><button type="button" class="copy">Copy</button></div><pre tabindex="0"><code>`)
	writeHighlighted(&b, text, o)
	b.WriteString("</code></pre></div>\n")
	return b.String()
}
