package generator_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"rutter/generator"
)

func tiny(pages map[string]string) generator.Config {
	cfg := sample()
	content := fstest.MapFS{"index.md": {Data: []byte("---\ntitle: Home\n---\n")}}
	for name, text := range pages {
		content[name] = &fstest.MapFile{Data: []byte("---\ntitle: T\n---\n" + text)}
	}
	cfg.Content, cfg.Runbooks, cfg.Sources = content, fstest.MapFS{}, nil
	return cfg
}

func build(t *testing.T, cfg generator.Config) *generator.Result {
	t.Helper()
	res, err := generator.Build(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func TestBuildWritesOnlyWhatChanged(t *testing.T) {
	out := t.TempDir()
	cfg := tiny(map[string]string{"guide/a.md": "one", "guide/b.md": "two"})
	cfg.Out = out
	first := build(t, cfg)
	if res := build(t, cfg); len(res.Written)+len(res.Removed) > 0 || res.Unchanged != len(first.Written) {
		t.Errorf("the same build again: wrote %v, removed %v", res.Written, res.Removed)
	}
	cfg = tiny(map[string]string{"guide/a.md": "one changed", "guide/b.md": "two"})
	cfg.Out = out
	if diff := cmp.Diff([]string{"guide/a/index.html", "search/index.js"}, build(t, cfg).Written); diff != "" {
		t.Errorf("one page changed (-want +got):\n%s", diff)
	}
}

func TestBuildRemovesItsOwnStaleFilesAlone(t *testing.T) {
	cfg := tiny(map[string]string{"guide/a.md": "one", "guide/b.md": "two"})
	cfg.Out = t.TempDir()
	build(t, cfg)
	mine := filepath.Join(cfg.Out, "guide/b/notes.txt")
	if err := os.WriteFile(mine, []byte("keep"), 0o644); err != nil {
		t.Fatal(err)
	}
	out := cfg.Out
	cfg = tiny(nil)
	cfg.Out = out
	if diff := cmp.Diff([]string{"guide/a/index.html", "guide/b/index.html"}, build(t, cfg).Removed); diff != "" {
		t.Errorf("removed (-want +got):\n%s", diff)
	}
	if _, err := os.Stat(mine); err != nil {
		t.Errorf("a file that no build wrote is gone: %v", err)
	}
	if _, err := os.Stat(filepath.Join(cfg.Out, "guide/a")); err == nil {
		t.Error("an empty directory was left behind")
	}
}

func TestBuildRefusesDangerousOutput(t *testing.T) {
	src := t.TempDir()
	foreign := t.TempDir()
	if err := os.WriteFile(filepath.Join(foreign, "thesis.txt"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(src, link); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ name, out, want string }{
		{"the source", src, "is the source directory"},
		{"inside", filepath.Join(src, "a/b"), "is inside the source directory"},
		{"around", filepath.Dir(src), "is around the source directory"},
		{"through a link", filepath.Join(link, "public"), "is inside the source directory"},
		{"somebody's files", foreign, "holds files that no build wrote, such as thesis.txt"},
		{"none", "", "no output directory"},
	} {
		cfg := tiny(nil)
		cfg.Out, cfg.Sources = tc.out, []string{src}
		_, err := generator.Build(context.Background(), cfg)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want an error that says %q", tc.name, err, tc.want)
		}
	}
}

func TestContentLinksOnDiskAreRefusedNotFollowed(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "index.md"), []byte("---\ntitle: Home\n---\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(".", filepath.Join(dir, "loop")); err != nil {
		t.Fatal(err)
	}
	cfg := tiny(nil)
	cfg.Content = os.DirFS(dir)
	_, err := generator.Render(context.Background(), cfg)
	if err == nil || !strings.Contains(err.Error(), "content/loop: not a regular file") {
		t.Errorf("got %v, want an error that names content/loop", err)
	}
}

func TestBrokenSiteIsNotWritten(t *testing.T) {
	cfg := tiny(map[string]string{"guide/a.md": "[x](gone.md)"})
	cfg.Out = filepath.Join(t.TempDir(), "public")
	if _, err := generator.Build(context.Background(), cfg); err == nil {
		t.Fatal("a broken link built")
	}
	if _, err := os.Stat(cfg.Out); err == nil {
		t.Error("the output directory was made")
	}
}

func TestNotFoundPageNeedsABase(t *testing.T) {
	cfg := tiny(nil)
	cfg.BaseURL = "https://example.org/docs"
	tree, err := generator.Render(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(tree["404.html"]), `href="/docs/assets/rutter.css"`) {
		t.Error("404.html does not load its style sheet from the base")
	}
	if strings.Contains(string(tree["index.html"]), "/docs/") {
		t.Error("another page depends on the base")
	}
	cfg.BaseURL = "docs"
	if _, err := generator.Render(context.Background(), cfg); err == nil {
		t.Error("a base URL without a host was accepted")
	}
}
