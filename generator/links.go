package generator

import (
	"html/template"
	"maps"
	"path"
	"slices"
	"strings"

	"rutter/generator/markdown"
	"rutter/generator/page"
	"rutter/runbooks/diag"
)

// resolver returns what turns the links of a source file into hrefs of a page.
// Links are written as paths between the sources, so that they also work where
// those are browsed: other.md, ../../runbooks/liqo/peering/force-unpeer.yaml,
// picture.svg. A path that begins with a slash is one in the built site.
func (b *builder) resolver(file, out string) func(string) (string, *diag.Diagnostic) {
	return func(dest string) (string, *diag.Diagnostic) {
		target, fragment, hasFragment := strings.Cut(dest, "#")
		if hasFragment {
			fragment = "#" + fragment
		}
		if target == "" {
			return fragment, nil
		}
		if site, ok := strings.CutPrefix(target, "/"); ok {
			return page.Rel(out, site) + fragment, nil
		}
		source := path.Join(path.Dir(file), target)
		to, ok := b.outOf(source)
		if !ok {
			near := diag.Nearest(source, b.linkable())
			hint := "link to the source: another .md, or the .yaml of a runbook"
			if near != "" {
				hint = "did you mean " + relative(file, near) + "?"
			}
			return "", &diag.Diagnostic{Message: "link to " + target + ": there is no " + source, Hint: hint}
		}
		return page.Rel(out, to) + fragment, nil
	}
}

// outOf returns the file that a source becomes.
func (b *builder) outOf(source string) (string, bool) {
	if name, ok := strings.CutPrefix(source, contentDir+"/"); ok {
		if d := b.byPath[name]; d != nil {
			return b.pageOf(d), true
		}
		return name, b.assets[name]
	}
	name, ok := strings.CutPrefix(source, runbooksDir+"/")
	name, yaml := strings.CutSuffix(name, ".yaml")
	if !ok || !yaml || !b.hasRunbook(name) {
		return "", false
	}
	return runbookPath(name), true
}

// pageOf returns the page of a doc. A topic of the FAQ has none of its own.
func (b *builder) pageOf(d *doc) string {
	if isTopic(d) {
		return faqPath
	}
	return d.out
}

func (b *builder) linkable() []string {
	var all []string
	for _, d := range b.docs {
		all = append(all, d.file())
	}
	for _, rb := range b.runbooks {
		all = append(all, path.Join(runbooksDir, rb.Path+".yaml"))
	}
	for name := range maps.Keys(b.assets) {
		all = append(all, path.Join(contentDir, name))
	}
	slices.Sort(all)
	return all
}

func relative(from, to string) string { return page.Rel(from, to) }

// convert renders a source for a page and records where its links were written.
// place, if not nil, turns places in the text into places in the file it is from.
func (b *builder) convert(src markdown.Source, out string, opts markdown.Options, place func(diag.Pos) diag.Pos) *markdown.Document {
	if place == nil {
		place = func(p diag.Pos) diag.Pos { return p }
	}
	opts.Resolve = b.resolver(src.File, out)
	d, diags := markdown.Convert(src, opts)
	for _, problem := range diags {
		problem.Pos = place(problem.Pos)
		b.diags = append(b.diags, problem)
	}
	for _, l := range d.Links {
		b.origins[[2]string{out, l.Href}] = place(l.Pos)
	}
	return d
}

// trusted marks what package markdown rendered as safe to put on a page.
func trusted(html string) template.HTML { return template.HTML(html) }

func highlight(text, lang, title string) template.HTML {
	return trusted(markdown.Highlight(text, lang, title))
}
