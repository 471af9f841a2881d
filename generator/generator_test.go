package generator_test

import (
	"bytes"
	"context"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"

	"rutter/generator"
	"rutter/generator/bundle"
	"rutter/runbooks/diag"
	"rutter/runbooks/runbook"
	"rutter/runbooks/step"
)

var update = flag.Bool("update", false, "write the golden files")

// sample is the small site that most tests build, with the real theme.
func sample() generator.Config {
	return generator.Config{
		Name:     "Shop",
		Content:  os.DirFS("testdata/site/content"),
		Runbooks: os.DirFS("testdata/site/runbooks"),
		Theme:    os.DirFS("../site"),
		Sources:  []string{"testdata/site"},
	}
}

func buildSample(t *testing.T) string {
	t.Helper()
	cfg := sample()
	cfg.Out = filepath.Join(t.TempDir(), "public")
	if _, err := generator.Build(context.Background(), cfg); err != nil {
		t.Fatal(err)
	}
	return cfg.Out
}

func pagesIn(t *testing.T, dir string) []string {
	t.Helper()
	var pages []string
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(name, ".html") {
			pages = append(pages, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

func TestPagesAreAsTheyWere(t *testing.T) {
	cfg := sample()
	cfg.Kinds = fakeKinds()
	tree, err := generator.Render(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	for page, golden := range map[string]string{
		"index.html":                             "home.html",
		"faq/index.html":                         "faq.html",
		"faq/shop/closed/index.html":             "question.html",
		"runbooks/shop/repair/index.html":        "runbook.html",
		"runbooks/index.html":                    "catalogue.html",
		"reference/verbs/index.html":             "verbs.html",
		"runbooks/shop/repair/source/index.html": "source.html",
		"404.html":                               "notfound.html",
	} {
		name := filepath.Join("testdata/golden", golden)
		got := string(tree[page])
		if *update {
			if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s (-want +got), run with -update to accept:\n%s", page, diff)
		}
	}
}

// TestPagesShowTheStepsOwnCommands holds the promise of the project on its own
// half: what stands in a page's code blocks is what the steps say, to the byte.
func TestPagesShowTheStepsOwnCommands(t *testing.T) {
	for name, cfg := range map[string]generator.Config{"sample": sample(), "shipped": shipped()} {
		tree, err := generator.Render(context.Background(), cfg)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		runbooks, err := runbook.Load(cfg.Runbooks, step.Builtin())
		if err != nil {
			t.Fatal(err)
		}
		for _, rb := range runbooks {
			blocks := kubectlBlocks(t, tree["runbooks/"+rb.Path+"/index.html"])
			rb.Walk(func(s *runbook.Step, _ int) {
				want := step.Shell(s.Lines(), s.Context())
				if got := blocks[s.ID]; got != want {
					t.Errorf("%s, step %s: the page has\n%s\nthe step says\n%s", rb.Path, s.ID, got, want)
				}
			})
		}
	}
}

// kubectlBlocks returns the text of the code blocks of a page by step.
func kubectlBlocks(t *testing.T, page []byte) map[string]string {
	t.Helper()
	root, err := html.Parse(bytes.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	blocks := map[string]string{}
	for n := range root.Descendants() {
		for _, a := range n.Attr {
			if a.Key == "data-kubectl" {
				var b strings.Builder
				for c := range n.Descendants() {
					if c.Type == html.TextNode {
						b.WriteString(c.Data)
					}
				}
				blocks[a.Val] = b.String()
			}
		}
	}
	return blocks
}

// shipped is the project's own site.
func shipped() generator.Config {
	return generator.Config{
		Content: os.DirFS("../content"), Runbooks: os.DirFS("../runbooks"), Theme: os.DirFS("../site"),
	}
}

func TestShippedSiteBuilds(t *testing.T) {
	tree, err := generator.Render(context.Background(), shipped())
	if err != nil {
		t.Fatal(err)
	}
	page := string(tree["faq/index.html"])
	for _, anchor := range []string{"how-to-force-unpeer-a-cluster", "peering"} {
		if !strings.Contains(page, `id="`+anchor+`"`) {
			t.Errorf("the page of all questions lost its anchor #%s, which is linked from elsewhere", anchor)
		}
	}
}

func TestBuildTwiceGivesTheSameBytes(t *testing.T) {
	a, err := generator.Render(context.Background(), sample())
	if err != nil {
		t.Fatal(err)
	}
	b, err := generator.Render(context.Background(), sample())
	if err != nil {
		t.Fatal(err)
	}
	var za, zb bytes.Buffer
	for buf, tree := range map[*bytes.Buffer]generator.Tree{&za: a, &zb: b} {
		if err := bundle.Zip().Write(context.Background(), buf, tree, bundle.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(za.Bytes(), zb.Bytes()) {
		t.Error("two builds, packed, differ")
	}
	if _, err := bundle.Verify(context.Background(), bytes.NewReader(za.Bytes()), int64(za.Len()), bundle.Limits{}); err != nil {
		t.Error(err)
	}
}

func TestTreeIsAFileSystem(t *testing.T) {
	tree := generator.Tree{"a.txt": []byte("a"), "d/b.txt": []byte("b"), "d/e/c.txt": []byte("c")}
	if err := fstest.TestFS(tree, "a.txt", "d/b.txt", "d/e/c.txt"); err != nil {
		t.Error(err)
	}
}

func TestEveryProblemIsReportedAtItsPlace(t *testing.T) {
	page := func(text string) fstest.MapFS {
		return fstest.MapFS{
			"index.md":     {Data: []byte("---\ntitle: Home\n---\n")},
			"guide/one.md": {Data: []byte(text)},
		}
	}
	for _, tc := range []struct{ name, text, want string }{
		{"unknown key", "---\ntitle: x\nsumary: y\n---\n", "content/guide/one.md:3:1: unknown key \"sumary\" in front matter\n\thint: did you mean \"summary\"?"},
		{"missing key", "---\nsummary: y\n---\n", "content/guide/one.md:2:1: front matter: the key \"title\" is missing"},
		{"BOM and CRLF", "\ufeff---\r\ntitle: x\r\nsumary: y\r\n---\r\n", "content/guide/one.md:3:1: unknown key \"sumary\""},
		{"no front matter", "# Title\n", "content/guide/one.md:1:1: no front matter\n\thint: begin the file with ---"},
		{"no runbook", "---\ntitle: x\nrunbook: shop/repare\n---\n", "content/guide/one.md:3:10: no runbook shop/repare\n\thint: did you mean \"shop/repair\"?"},
		{"no page", "---\ntitle: x\n---\n\nSee [it](../indx.md).\n", "content/guide/one.md:5:5: link to ../indx.md: there is no content/indx.md\n\thint: did you mean ../index.md?"},
		{"no anchor", "---\ntitle: x\n---\n\nSee [it](#gone).\n", "content/guide/one.md:5:5: link \"#gone\" leads to an anchor that guide/one/index.html does not have"},
		{"slash after the anchor", "---\ntitle: x\n---\n\n## Here\n[it](#here/)\n", "content/guide/one.md:6:1: link \"#here/\" leads to an anchor"},
		{"no built page", "---\ntitle: x\n---\n[it](/gone/index.html)\n", "content/guide/one.md:4:1: link \"../../gone/index.html\" leads to no page"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := sample()
			cfg.Content = page(tc.text)
			cfg.Runbooks = fstest.MapFS{"shop/repair.yaml": {Data: []byte(tinyRunbook)}}
			_, err := generator.Render(context.Background(), cfg)
			if _, ok := diag.AsList(err); !ok {
				t.Fatalf("got %v, want diagnostics", err)
			}
			if got := err.Error(); !strings.HasPrefix(got, tc.want) {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestBrokenRunbookIsReportedOnceAtItsPlace(t *testing.T) {
	cfg := tiny(map[string]string{"guide/a.md": "[it](../../runbooks/repair.yaml)\n"})
	cfg.Runbooks = fstest.MapFS{"repair.yaml": {Data: []byte(strings.Replace(tinyRunbook, "summary", "sumary", 1))}}
	_, err := generator.Render(context.Background(), cfg)
	list, _ := diag.AsList(err)
	for _, d := range list {
		if d.Pos.File != "runbooks/repair.yaml" {
			t.Errorf("got %v, want problems of runbooks/repair.yaml alone", d)
		}
	}
	if len(list) == 0 {
		t.Errorf("got %v, want diagnostics", err)
	}
}

func TestProblemsInARunbooksProseHaveTheirPlace(t *testing.T) {
	cfg := tiny(nil)
	text := strings.Replace(tinyRunbook, "steps:\n", "doc: |\n  First.\n\n  See [it](gone.yaml).\nsteps:\n", 1)
	cfg.Runbooks = fstest.MapFS{"repair.yaml": {Data: []byte(text)}}
	_, err := generator.Render(context.Background(), cfg)
	if err == nil {
		t.Fatal("a broken link built")
	}
	want := "runbooks/repair.yaml:10:7: link to gone.yaml: there is no runbooks/gone.yaml"
	if !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

const tinyRunbook = `apiVersion: rutter/v1
kind: Runbook
metadata: {name: repair}
title: Repair
summary: Repairs.
clusters: {local: {title: Yours}}
steps:
  - id: look
    get: {resource: pods, allNamespaces: true}
`
