package step

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// condition is one status condition.
type condition struct {
	kind, status, reason, message string
	observed                      int64 // the generation it is about, if it says so
	dated                         bool
}

func conditionsOf(o *unstructured.Unstructured) []condition {
	var out []condition
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, item := range list {
		m, ok := item.(map[string]any)
		if !ok {
			continue
		}
		text := func(key string) string {
			s, _ := m[key].(string)
			return s
		}
		c := condition{kind: text("type"), status: text("status"), reason: text("reason"), message: text("message")}
		c.observed, c.dated = m["observedGeneration"].(int64)
		out = append(out, c)
	}
	return out
}

// String is a condition in a sentence: Ready is False (Reason: message).
func (c condition) String() string {
	s := c.kind + " is " + c.status
	if why := strings.Trim(c.reason+": "+c.message, ": "); why != "" {
		s += " (" + why + ")"
	}
	return s
}

// namespaceConditions are those that a namespace controller sets while it
// deletes what is inside. Each is about trouble if it is True.
var namespaceConditions = map[string]bool{
	"NamespaceContentRemaining":                   true,
	"NamespaceFinalizersRemaining":                true,
	"NamespaceDeletionDiscoveryFailure":           true,
	"NamespaceDeletionGroupVersionParsingFailure": true,
	"NamespaceDeletionContentFailure":             true,
}

func isNamespace(o *unstructured.Unstructured) bool {
	return o.GroupVersionKind().GroupKind() == schema.GroupKind{Kind: "Namespace"}
}

// namespaceTroubles says why a namespace is not gone yet, by its conditions.
func namespaceTroubles(o *unstructured.Unstructured) []string {
	if !isNamespace(o) || o.GetDeletionTimestamp() == nil {
		return nil
	}
	var out []string
	for _, c := range conditionsOf(o) {
		if !namespaceConditions[c.kind] || c.status != "True" {
			continue
		}
		s := c.message
		if dead := deadGroups(c.message); len(dead) > 0 {
			s += " (see APIService " + strings.Join(dead, ", ") + ")"
		}
		out = append(out, s)
	}
	return out
}

// countRE is how a namespace's conditions count what remains: resources by
// plural.group, where the core group leaves the dot, and finalizers.
var countRE = regexp.MustCompile(`([^\s,]+) (?:has|in) (\d+) resource instances`)

// groupRE is how a discovery failure names a group and version.
var groupRE = regexp.MustCompile(`([a-z0-9.-]+)/(v[0-9][a-z0-9]*): `)

// deadGroups returns the APIServices that a discovery failure is about.
func deadGroups(message string) []string {
	var out []string
	for _, m := range groupRE.FindAllStringSubmatch(message, -1) {
		out = append(out, m[2]+"."+m[1])
	}
	return out
}

// webhookRE is how the API server reports a webhook that did not answer.
var webhookRE = regexp.MustCompile(`failed calling webhook "([^"]+)": (?:failed to call webhook: )?(.*)$`)

// serviceRE is the service in the URL that it called.
var serviceRE = regexp.MustCompile(`https://([a-z0-9-]+)\.([a-z0-9-]+)\.svc[:/]`)

// webhookHint says what a webhook that does not answer means for what was
// tried: why is a sentence about that.
func webhookHint(err error, why string) error {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Code != 500 {
		return err
	}
	m := webhookRE.FindStringSubmatch(status.Status().Message)
	if m == nil {
		return err
	}
	who := fmt.Sprintf("webhook %q", m[1])
	if s := serviceRE.FindStringSubmatch(m[2]); s != nil {
		who += fmt.Sprintf(" of service %s in namespace %s", s[1], s[2])
	}
	return fmt.Errorf("%s does not answer, and %s; bring it back, or as a last resort delete its webhook configuration: %w", who, why, err)
}
