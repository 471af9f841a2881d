// Package page turns typed data into the HTML of each kind of page.
//
// A [Theme] is loaded once from the templates of a theme; it has one method for
// each kind of page, which takes that kind's data. Everything that is the same
// on all pages is in [Frame]. What a runbook's page shows comes from the
// runbook's own steps ([NewRunbook]): the package derives no command, permission
// or effect itself. It reads no content and writes no files.
package page

import (
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"path"
	"strings"
)

// Site is what all pages share.
type Site struct {
	Name    string
	Lang    string // a BCP 47 tag; "en" unless said otherwise
	Version string // shown at the foot, "" for none
	Nav     []NavGroup
}

// NavGroup is a titled part of the navigation.
type NavGroup struct {
	Title string
	Links []Link
}

// Link leads to a page, by its path from the root of the site.
type Link struct{ Title, Path string }

// Heading is an entry of a page's outline.
type Heading struct {
	ID, Title string
	Deep      bool // below another
}

// Frame is what every page has. Paths are those of files in the output tree,
// such as faq/index.html.
type Frame struct {
	Site        *Site
	Path        string
	Title       string
	Description string // for search engines; plain text
	Lead        string // the sentence under the title
	Crumbs      []Link
	TOC         []Heading
	Prev, Next  *Link
	// Base is put before every path instead of a relative way: for the one page
	// that a server sends for any address. It ends in a slash.
	Base string
}

// Rel returns the href of a path of the site, which may have a fragment, as seen
// from this page.
func (f Frame) Rel(target string) string {
	if f.Base != "" {
		return f.Base + target
	}
	return Rel(f.Path, target)
}

// Root returns the way to the root of the site: "" or as many ../ as it takes.
func (f Frame) Root() string {
	if f.Base != "" {
		return f.Base
	}
	return strings.Repeat("../", strings.Count(f.Path, "/"))
}

// Rel returns the href from one file of the site to another: always relative,
// and always naming a file, so that it works on any server and on none.
func Rel(from, target string) string {
	target, fragment, hasFragment := strings.Cut(target, "#")
	if hasFragment {
		fragment = "#" + fragment
	}
	if target == from && hasFragment {
		return fragment
	}
	a, b := strings.Split(path.Dir(from), "/"), strings.Split(path.Dir(target), "/")
	if a[0] == "." {
		a = nil
	}
	if b[0] == "." {
		b = nil
	}
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	parts := make([]string, 0, len(a)+len(b)+1)
	for range a {
		parts = append(parts, "..")
	}
	return strings.Join(append(append(parts, b...), path.Base(target)), "/") + fragment
}

// Theme is a loaded theme. It is safe for concurrent use.
type Theme struct{ kinds map[string]*template.Template }

// kinds are the templates beside base.html, one for each kind of page.
var kinds = []string{"home", "faq", "question", "article", "runbook", "catalogue", "verbs", "notfound"}

// Load reads the templates of a theme.
func Load(theme fs.FS) (*Theme, error) {
	base, err := template.New("base.html").ParseFS(theme, "templates/base.html")
	if err != nil {
		return nil, fmt.Errorf("load the theme: %w", err)
	}
	t := &Theme{kinds: map[string]*template.Template{}}
	for _, kind := range kinds {
		clone, err := base.Clone()
		if err == nil {
			t.kinds[kind], err = clone.ParseFS(theme, "templates/"+kind+".html")
		}
		if err != nil {
			return nil, fmt.Errorf("load the theme: %w", err)
		}
	}
	return t, nil
}

func (t *Theme) execute(w io.Writer, kind string, data any) error {
	if err := t.kinds[kind].ExecuteTemplate(w, "base", data); err != nil {
		return fmt.Errorf("render a page of kind %s: %w", kind, err)
	}
	return nil
}

// Prose turns Markdown into HTML. The HTML must be safe: package markdown, with
// raw HTML off, is what is meant.
type Prose func(markdown string) template.HTML
