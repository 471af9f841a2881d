// Package check reads a built site as a reader's browser would and reports what
// is broken in it.
//
// [Tree] looks at every HTML file: links and anchors must lead somewhere inside
// the tree without a server's help, ids must be unique, images must say what
// they show, and nothing may be loaded from elsewhere. It knows nothing of how
// the pages were made; an [Origins] function tells it which source a link came
// from.
package check

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	"golang.org/x/net/html"

	"rutter/runbooks/diag"
)

// Origins says where in the sources a link of a page was written. It may return
// the zero Pos; the page itself is named then.
type Origins func(page, href string) diag.Pos

// Options are optional.
type Options struct {
	Origins Origins
	// Base is the path under which a server has the site, such as /docs/.
	// Links may begin with it; without it every link must be relative.
	Base string
}

// Tree checks all pages of a tree.
func Tree(ctx context.Context, tree fs.FS, opts Options) (diag.List, error) {
	c := &checker{tree: tree, opts: opts, pages: map[string]*page{}}
	err := fs.WalkDir(tree, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if d.IsDir() || path.Ext(p) != ".html" {
			return nil
		}
		src, err := fs.ReadFile(tree, p)
		if err != nil {
			return err
		}
		return c.read(p, string(src))
	})
	if err != nil {
		return nil, fmt.Errorf("check the site: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(c.pages)) {
		c.follow(name)
	}
	c.diags.Sort()
	return c.diags, nil
}

type checker struct {
	tree  fs.FS
	opts  Options
	pages map[string]*page
	diags diag.List
}

// page is what one HTML file offers and asks for.
type page struct {
	ids   map[string]bool
	links []string // href of a and area
	loads []string // what a browser fetches: img, script, link
}

func (c *checker) read(name, src string) error {
	p := &page{ids: map[string]bool{}}
	c.pages[name] = p
	z := html.NewTokenizer(strings.NewReader(src))
	for {
		switch z.Next() {
		case html.ErrorToken:
			return nil
		case html.StartTagToken, html.SelfClosingTagToken:
			c.element(name, p, z.Token())
		}
	}
}

func (c *checker) element(name string, p *page, t html.Token) {
	attrs := map[string]string{}
	for _, a := range t.Attr {
		attrs[a.Key] = a.Val
		if a.Key == "style" || strings.HasPrefix(a.Key, "on") {
			c.diags.Addf(diag.Pos{File: name}, "<%s> has %s, which the content security policy forbids", t.Data, a.Key)
		}
	}
	if id, ok := attrs["id"]; ok {
		if id == "" || strings.ContainsAny(id, " \t\n") {
			c.diags.Addf(diag.Pos{File: name}, "id %q is empty or has a space", id)
		}
		if p.ids[id] {
			c.diags.Addf(diag.Pos{File: name}, "duplicate id %q", id)
		}
		p.ids[id] = true
	}
	switch t.Data {
	case "a", "area":
		if href, ok := attrs["href"]; ok {
			p.links = append(p.links, href)
		}
	case "img":
		if _, ok := attrs["alt"]; !ok {
			c.diags.Addf(diag.Pos{File: name}, "image %s has no alt text", attrs["src"])
		}
		p.loads = append(p.loads, attrs["src"])
	case "script":
		if attrs["src"] == "" {
			c.diags.Addf(diag.Pos{File: name}, "inline script, which the content security policy forbids")
		}
		p.loads = append(p.loads, attrs["src"])
	case "link":
		if rel := attrs["rel"]; rel == "stylesheet" || rel == "icon" {
			p.loads = append(p.loads, attrs["href"])
		}
	case "style":
		c.diags.Addf(diag.Pos{File: name}, "inline style, which the content security policy forbids")
	}
}

func (c *checker) follow(name string) {
	p := c.pages[name]
	for _, href := range p.links {
		u, err := url.Parse(href)
		if err != nil {
			c.broken(name, href, "is no URL", "")
			continue
		}
		if u.Scheme == "http" || u.Scheme == "https" || u.Scheme == "mailto" {
			continue
		}
		c.internal(name, href, u)
	}
	for _, src := range p.loads {
		u, err := url.Parse(src)
		switch {
		case err != nil || u.Scheme != "" && u.Scheme != "data" || u.Host != "":
			c.broken(name, src, "is loaded from elsewhere", "")
		case u.Scheme == "":
			c.internal(name, src, u)
		}
	}
}

// internal follows a link inside the tree. It must work from a file system too:
// relative, and naming a file.
func (c *checker) internal(name, href string, u *url.URL) {
	if u.Scheme != "" || u.Host != "" || href == "" {
		c.broken(name, href, "leads nowhere", "")
		return
	}
	fromRoot := c.opts.Base != "" && strings.HasPrefix(u.Path, c.opts.Base)
	if strings.HasPrefix(u.Path, "/") && !fromRoot {
		c.broken(name, href, "is absolute, and so breaks under a sub-path and from a file", "link relative to the page")
		return
	}
	target := name
	switch {
	case fromRoot:
		target = strings.TrimPrefix(u.Path, c.opts.Base)
	case u.Path != "":
		target = path.Join(path.Dir(name), u.Path)
	}
	info, err := fs.Stat(c.tree, target)
	if err != nil {
		c.broken(name, href, "leads to no page", diag.DidYouMean(target, slices.Collect(maps.Keys(c.pages))))
		return
	}
	if info.IsDir() {
		c.broken(name, href, "leads to a directory, which a browser cannot open from a file", "link to its index.html")
		return
	}
	to, isPage := c.pages[target]
	if u.Fragment == "" || !isPage || to.ids[u.Fragment] {
		return
	}
	c.broken(name, href, fmt.Sprintf("leads to an anchor that %s does not have", target),
		diag.DidYouMean(u.Fragment, slices.Collect(maps.Keys(to.ids))))
}

func (c *checker) broken(name, href, what, hint string) {
	pos := diag.Pos{File: name}
	if c.opts.Origins != nil {
		if p := c.opts.Origins(name, href); p.File != "" {
			pos = p
		}
	}
	c.diags.AddHint(pos, hint, "link %q %s", href, what)
}
