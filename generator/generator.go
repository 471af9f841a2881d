// Package generator builds the site: content, runbooks and a theme in, a tree of
// static files out.
//
// [Build] is all of it. The tree works from a file system and under any path of
// any server, and the same inputs give the same bytes. Problems in the sources
// are a diag.List, with every place; nothing is written unless all is well. The
// package reads no cluster and cannot link a client of one.
package generator

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"strings"

	"rutter/generator/check"
	"rutter/generator/page"
	"rutter/runbooks/diag"
	"rutter/runbooks/runbook"
	"rutter/runbooks/step"
)

// Config says what to build and where to. Content, Runbooks, Theme and Out must
// be set.
type Config struct {
	// Name is the site's name, shown on every page; "Rutter" if empty.
	Name string
	// Lang is the language of the content, "en" if empty.
	Lang string
	// Version is shown at the foot of the pages.
	Version string
	// BaseURL is where the site will be, such as https://example.org/docs/.
	// Only what cannot be relative needs it; empty is fine.
	BaseURL string

	Content  fs.FS // Markdown, with index.md at the root
	Runbooks fs.FS // YAML
	Theme    fs.FS // templates/ and assets/
	// Kinds are the verbs that runbooks may use; step.Builtin() if nil.
	Kinds []*step.Kind

	// Out is the directory to write to. It is made if it is not there.
	Out string
	// Sources are the directories that the sources were read from, if they are
	// on disk: Out may be neither inside of one nor around it.
	Sources []string
}

// Result counts what a build did.
type Result struct {
	Pages     int
	Written   []string // paths in Out that were new or changed, sorted
	Removed   []string // left over from an earlier build
	Unchanged int
}

// Build builds the site. The error carries a diag.List if the sources are at
// fault.
func Build(ctx context.Context, cfg Config) (*Result, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	tree, err := Render(ctx, cfg)
	if err != nil {
		return nil, err
	}
	res, err := write(ctx, cfg.Out, tree)
	if err != nil {
		return nil, err
	}
	for name := range tree {
		if strings.HasSuffix(name, ".html") {
			res.Pages++
		}
	}
	return res, nil
}

// Render makes the tree in memory and checks it, but writes nothing. Config's
// Out and Sources are not used.
func Render(ctx context.Context, cfg Config) (Tree, error) {
	if cfg.Content == nil || cfg.Runbooks == nil || cfg.Theme == nil {
		return nil, errors.New("build the site: content, runbooks and theme must be given")
	}
	b, err := newBuilder(cfg)
	if err != nil {
		return nil, err
	}
	if err := b.load(); err != nil {
		return nil, err
	}
	if err := b.render(ctx); err != nil {
		return nil, err
	}
	// The built tree is only worth checking once the sources are right:
	// a missing page breaks every link to it.
	if err := b.diags.Err(); err != nil {
		return nil, err
	}
	broken, err := check.Tree(ctx, b.tree, check.Options{Origins: b.origin, Base: b.base})
	if err != nil {
		return nil, err
	}
	if err := broken.Err(); err != nil {
		return nil, err
	}
	return b.tree, nil
}

// builder holds one build.
type builder struct {
	cfg      Config
	base     string // path of BaseURL, "" without one
	theme    *page.Theme
	site     *page.Site
	docs     []*doc
	byPath   map[string]*doc
	assets   map[string]bool // files of the content that are copied
	runbooks []*runbook.Runbook
	cards    map[string]page.Card // by runbook path, without Href
	tree     Tree
	origins  map[[2]string]diag.Pos // by page and href
	search   searchDocs
	diags    diag.List
}

func newBuilder(cfg Config) (*builder, error) {
	if cfg.Name == "" {
		cfg.Name = "Rutter"
	}
	if cfg.Lang == "" {
		cfg.Lang = "en"
	}
	if cfg.Kinds == nil {
		cfg.Kinds = step.Builtin()
	}
	base := ""
	if cfg.BaseURL != "" {
		u, err := url.Parse(cfg.BaseURL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return nil, fmt.Errorf("base URL %q: want one such as https://example.org/docs/", cfg.BaseURL)
		}
		base = strings.TrimSuffix(u.Path, "/") + "/"
	}
	theme, err := page.Load(cfg.Theme)
	if err != nil {
		return nil, err
	}
	return &builder{
		cfg: cfg, base: base, theme: theme,
		site:   &page.Site{Name: cfg.Name, Lang: cfg.Lang, Version: cfg.Version},
		byPath: map[string]*doc{}, assets: map[string]bool{}, cards: map[string]page.Card{},
		tree: Tree{}, origins: map[[2]string]diag.Pos{},
	}, nil
}

func (b *builder) origin(pagePath, href string) diag.Pos { return b.origins[[2]string{pagePath, href}] }

// load reads all sources, collecting what is wrong in any of them.
func (b *builder) load() error {
	if err := b.loadContent(); err != nil {
		return err
	}
	runbooks, err := runbook.Load(b.cfg.Runbooks, b.cfg.Kinds)
	if err != nil {
		problems, ok := diag.AsList(err)
		if !ok {
			return err
		}
		for _, p := range problems {
			p.Pos.File = path.Join(runbooksDir, p.Pos.File)
			b.diags = append(b.diags, p)
		}
	}
	b.runbooks = runbooks
	for _, rb := range runbooks {
		b.cards[rb.Path] = page.NewCard(rb)
	}
	b.checkMeta()
	b.site.Nav = b.nav()
	return nil
}

// render makes every file of the tree.
func (b *builder) render(ctx context.Context) error {
	steps := []func() error{
		b.copyAssets, b.home, b.faq, b.questions, b.articles, b.runbookPages, b.catalogue, b.verbs, b.notFound, b.index,
	}
	for _, f := range steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}
