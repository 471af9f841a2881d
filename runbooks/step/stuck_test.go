package step

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestNamespaceTroubles(t *testing.T) {
	ns := func(kind, status, message string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Namespace",
			"metadata": map[string]any{"name": "stuck", "deletionTimestamp": "2026-01-02T03:04:05Z"},
			"status":   map[string]any{"conditions": []any{map[string]any{"type": kind, "status": status, "message": message}, "no condition"}},
		}}
	}
	failed := "Discovery failed for some groups, 2 failing: unable to retrieve the complete list of server APIs: " +
		"metrics.liqo.io/v1beta1: stale GroupVersion discovery: metrics.liqo.io/v1beta1, custom.metrics.k8s.io/v1: the server is currently unable to handle the request"
	for _, tt := range []struct {
		name string
		obj  *unstructured.Unstructured
		want []string
	}{
		{"content", ns("NamespaceContentRemaining", "True", "Some resources are remaining: secrets. has 1 resource instances"), []string{"Some resources are remaining: secrets. has 1 resource instances"}},
		{"discovery", ns("NamespaceDeletionDiscoveryFailure", "True", failed), []string{failed + " (see APIService v1beta1.metrics.liqo.io, v1.custom.metrics.k8s.io)"}},
		{"no trouble", ns("NamespaceDeletionContentFailure", "False", "All content successfully deleted"), nil},
		{"another condition", ns("Ready", "True", "so it is"), nil},
		{"no namespace", &unstructured.Unstructured{Object: map[string]any{"kind": "Pod", "apiVersion": "v1"}}, nil},
	} {
		if d := cmp.Diff(tt.want, namespaceTroubles(tt.obj)); d != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, d)
		}
	}
}

func TestWebhookHint(t *testing.T) {
	dead := func(text string) error { return apierrors.NewInternalError(errors.New(text)) }
	for _, tt := range []struct {
		name string
		err  error
		want string // "" if the error stays as it is
	}{
		{
			"no endpoints",
			dead(`failed calling webhook "virtualnode.mutate.liqo.io": failed to call webhook: Post "https://liqo-webhook.liqo.svc:9443/mutate/virtualnodes?timeout=10s": no endpoints available for service "liqo-webhook"`),
			`webhook "virtualnode.mutate.liqo.io" of service liqo-webhook in namespace liqo does not answer, and that is that; bring it back`,
		},
		{"by URL", dead(`failed calling webhook "x.example.com": failed to call webhook: Post "https://10.1.2.3/x": dial tcp: connection refused`), `webhook "x.example.com" does not answer`},
		{"another internal error", dead("etcdserver: leader changed"), ""},
		{"another error", errors.New(`failed calling webhook "x": y`), ""},
	} {
		got := webhookHint(tt.err, "that is that")
		switch {
		case tt.want == "" && got != tt.err:
			t.Errorf("%s: got %v, want it as it was", tt.name, got)
		case !strings.Contains(got.Error(), tt.want):
			t.Errorf("%s: got %v, want %q in it", tt.name, got, tt.want)
		case !errors.Is(got, tt.err):
			t.Errorf("%s: the cause is lost", tt.name)
		}
	}
}
