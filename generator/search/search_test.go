package search_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rutter/generator/search"
)

func TestTerms(t *testing.T) {
	for _, tc := range []struct {
		text string
		want []string
	}{
		{"", nil},
		{"Force-unpeer a cluster.", []string{"force-unpeer", "force", "unpeer", "a", "cluster"}},
		{"liqo.io/type", []string{"liqo.io/type", "liqo", "io", "type"}},
		{"use --set-file \"x\"", []string{"use", "set-file", "set", "file", "x"}},
		{"OffloadingBackOff", []string{"offloadingbackoff", "offloading", "back", "off"}},
		{"@scope/x a:b SLURMCluster(", []string{"scope/x", "scope", "x", "a:b", "a", "b", "slurmcluster"}},
		{"設定ファイル", []string{"設定", "定フ", "ファ", "ァイ", "イル"}},
		{"Über 概 v1", []string{"über", "概", "v1"}},
		{"--- ... /", nil},
	} {
		if diff := cmp.Diff(tc.want, search.Terms(tc.text)); diff != "" {
			t.Errorf("Terms(%q) (-want +got):\n%s", tc.text, diff)
		}
	}
}

func TestScriptIsReproducibleAndCannotEndAScript(t *testing.T) {
	docs := []search.Doc{
		{Title: "</script><b>", Href: "a/index.html", Text: "one two <!-- \u2028"},
		{Title: "Two", Page: "One", Href: "b/index.html#two", Text: strings.Repeat("long ", 100)},
	}
	a, err := search.Build(docs).Script()
	if err != nil {
		t.Fatal(err)
	}
	b, err := search.Build(docs).Script()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a, b) {
		t.Error("two scripts of the same documents differ")
	}
	if bytes.ContainsAny(a, "<\u2028") {
		t.Errorf("script has a raw < or line separator: %s", a)
	}
}
