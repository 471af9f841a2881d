package markdown

import (
	"net/url"
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/util"

	"rutter/runbooks/diag"
)

// links decides where every link and image leads. What may not be followed,
// such as a javascript: URL however it is spelled, becomes plain text.
func links(st *state, doc *ast.Document, source []byte) {
	each(doc, func(l *ast.Link) {
		href, ok := st.href(l, decode(l.Destination))
		if !ok {
			unwrap(l)
			return
		}
		l.Destination = []byte(href)
		st.doc.Links = append(st.doc.Links, Link{Href: href, Pos: st.pos(l)})
	})
	each(doc, func(l *ast.AutoLink) {
		href := decodeAuto(l, source)
		if !external(href) {
			// A bare www.name or user@host that Linkify found, or a scheme
			// of the author's own in angle brackets: show it, lead nowhere.
			parent := l.Parent()
			parent.ReplaceChild(parent, l, ast.NewString(l.Label(source)))
			return
		}
		st.doc.Links = append(st.doc.Links, Link{Href: href, Pos: st.pos(l)})
	})
	each(doc, func(l *ast.Image) { st.image(l, source) })
}

func (st *state) image(l *ast.Image, source []byte) {
	if plain(l, source) == "" {
		st.diags.AddHint(st.pos(l), "write what it shows: ![a diagram of …](…)", "image without alternative text")
	}
	dest := decode(l.Destination)
	if scheme(dest) != "" || strings.HasPrefix(dest, "//") {
		st.diags.AddHint(st.pos(l), "keep the image beside the page and link to it by its name",
			"image from elsewhere: a page loads nothing from other sites")
		unwrap(l)
		return
	}
	href, ok := st.href(l, dest)
	if !ok {
		unwrap(l)
		return
	}
	l.Destination = []byte(href)
	st.doc.Links = append(st.doc.Links, Link{Href: href, Image: true, Pos: st.pos(l)})
}

// href resolves a decoded destination, or reports why it cannot be followed.
func (st *state) href(n ast.Node, dest string) (string, bool) {
	switch {
	case external(dest):
		return dest, true
	case scheme(dest) != "" || strings.HasPrefix(dest, "//") || strings.ContainsRune(dest, '\\'):
		st.diags.Addf(st.pos(n), "link to %q: only http, https and mailto links and paths are followed", dest)
		return "", false
	case dest == "":
		st.diags.Addf(st.pos(n), "link without a destination")
		return "", false
	case st.opts.Resolve == nil:
		return dest, true
	}
	href, problem := st.opts.Resolve(dest)
	if problem != nil {
		st.diags = append(st.diags, diag.Diagnostic{Pos: st.pos(n), Message: problem.Message, Hint: problem.Hint})
		return "", false
	}
	return href, true
}

// decode resolves the backslashes and entities of a destination, which is then
// a URL as a browser would see it.
func decode(dest []byte) string {
	s := string(util.ResolveEntityNames(util.ResolveNumericReferences(util.UnescapePunctuations(dest))))
	return strings.TrimSpace(s)
}

func decodeAuto(l *ast.AutoLink, source []byte) string {
	u := string(l.URL(source))
	if l.AutoLinkType == ast.AutoLinkEmail && !strings.HasPrefix(strings.ToLower(u), "mailto:") {
		u = "mailto:" + u
	}
	return u
}

// scheme returns the scheme of a URL in lower case as a browser reads it, that
// is past white space and control characters, or "".
func scheme(u string) string {
	u = strings.Map(func(r rune) rune {
		if r <= ' ' || r == 0x7f {
			return -1
		}
		return r
	}, u)
	i := strings.IndexAny(u, ":/?#")
	if i <= 0 || u[i] != ':' {
		return ""
	}
	return strings.ToLower(u[:i])
}

func external(dest string) bool {
	switch scheme(dest) {
	case "http", "https", "mailto":
		return true
	}
	return false
}

// unwrap puts what is inside a link in its place.
func unwrap(n ast.Node) {
	parent := n.Parent()
	for c := n.FirstChild(); c != nil; c = n.FirstChild() {
		parent.InsertBefore(parent, n, c)
	}
	parent.RemoveChild(parent, n)
}

// fragment escapes an id for use after the # of an href.
func fragment(id string) string { return (&url.URL{Fragment: id}).EscapedFragment() }

func renderLink(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	l, ok := n.(*ast.Link)
	if !ok {
		return ast.WalkContinue, nil
	}
	if !entering {
		_, _ = w.WriteString("</a>")
		return ast.WalkContinue, nil
	}
	_, _ = w.WriteString("<a" + hrefAttr(string(l.Destination)))
	if len(l.Title) > 0 {
		_, _ = w.WriteString(attr("title", string(l.Title)))
	}
	_ = w.WriteByte('>')
	return ast.WalkContinue, nil
}

func hrefAttr(href string) string {
	s := attr("href", string(util.URLEscape([]byte(href), false)))
	if strings.HasPrefix(scheme(href), "http") {
		s += ` rel="noopener"`
	}
	return s
}

func renderAutoLink(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if l, ok := n.(*ast.AutoLink); ok && entering {
		_, _ = w.WriteString("<a" + hrefAttr(decodeAuto(l, source)) + ">")
		writeEscaped(w, string(l.Label(source)))
		_, _ = w.WriteString("</a>")
	}
	return ast.WalkContinue, nil
}

func renderImage(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if l, ok := n.(*ast.Image); ok && entering {
		src := string(util.URLEscape(l.Destination, false))
		_, _ = w.WriteString(`<img loading="lazy"` + attr("src", src) + attr("alt", plain(l, source)) + ">")
	}
	return ast.WalkSkipChildren, nil
}
