package check_test

import (
	"context"
	"strings"
	"testing"
	"testing/fstest"

	"rutter/generator/check"
	"rutter/runbooks/diag"
)

func TestTree(t *testing.T) {
	for _, tc := range []struct{ name, page, want string }{
		{"good links", `<a href="sub/index.html">x</a><a href="sub/index.html#there">x</a><a href="#here">x</a><p id="here"><a href="https://example.org">x</a><a href="sub/data.json#any">x</a>`, ""},
		{"encoded anchor", `<a href="#%C3%BCber">x</a><p id="über">`, ""},
		{"no page", `<a href="subs/index.html">`, `index.html: link "subs/index.html" leads to no page` + "\n\thint: did you mean \"sub/index.html\"?"},
		{"no anchor", `<a href="sub/index.html#thre">`, `leads to an anchor that sub/index.html does not have` + "\n\thint: did you mean \"there\"?"},
		{"slash after the anchor", `<a href="sub/index.html#there/">`, `leads to an anchor that sub/index.html does not have`},
		{"directory", `<a href="sub/">`, `leads to a directory`},
		{"absolute", `<a href="/sub/index.html">`, `is absolute`},
		{"empty", `<a href="">`, `leads nowhere`},
		{"script scheme", `<a href="javascript:x">`, `leads nowhere`},
		{"duplicate id", `<p id="a"><p id="a">`, `duplicate id "a"`},
		{"no alt", `<img src="sub/data.json">`, `has no alt text`},
		{"decorative image", `<img src="sub/data.json" alt="">`, ``},
		{"foreign script", `<script src="https://example.org/x.js"></script>`, `is loaded from elsewhere`},
		{"missing style sheet", `<link rel="stylesheet" href="gone.css">`, `link "gone.css" leads to no page`},
		{"inline script", `<script>x</script>`, `inline script`},
		{"style attribute", `<p style="x">`, `has style`},
		{"handler", `<p onclick="x">`, `has onclick`},
		{"comment", `<!-- <a href="gone.html"> -->`, ``},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tree := fstest.MapFS{
				"index.html":     {Data: []byte(tc.page)},
				"sub/index.html": {Data: []byte(`<p id="there"><a href="../index.html">`)},
				"sub/data.json":  {Data: []byte(`{}`)},
			}
			diags, err := check.Tree(context.Background(), tree, check.Options{})
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if err := diags.Err(); err != nil {
				got = err.Error()
			}
			if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestTreeSaysWhereALinkWasWritten(t *testing.T) {
	tree := fstest.MapFS{"a/index.html": {Data: []byte(`<a href="gone.html">`)}}
	diags, err := check.Tree(context.Background(), tree, check.Options{Origins: func(page, href string) diag.Pos {
		return diag.Pos{File: "content/a.md", Line: 3, Col: 7}
	}})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := diags.Err().Error(), `content/a.md:3:7: link "gone.html" leads to no page`; !strings.HasPrefix(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestTreeUnderABase(t *testing.T) {
	tree := fstest.MapFS{
		"404.html":       {Data: []byte(`<a href="/docs/sub/index.html#x">a</a><a href="/docs/gone.html">b</a><a href="/sub/index.html">c</a>`)},
		"sub/index.html": {Data: []byte(`<p id="x">`)},
	}
	diags, err := check.Tree(context.Background(), tree, check.Options{Base: "/docs/"})
	if err != nil {
		t.Fatal(err)
	}
	if len(diags) != 2 {
		t.Errorf("got %v, want the two broken links alone", diags)
	}
}
