package kube

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
)

// request is one HTTP request to the API server.
type request struct {
	verb        string // what it does, for messages: get, list, delete …
	what        string // to what, for messages: pods/api in demo
	method      string // "" is GET
	path        string // below the server's URL, with its segments escaped
	query       url.Values
	body        []byte
	contentType string // "" is JSON
	accept      string // "" is JSON
	// once is set for writes: they are repeated only when the server cannot
	// have done them.
	once     bool
	resource schema.GroupResource
	name     string
}

// plainNotFound is an answer 404 that is not about an object: the server knows
// no such path. It wraps the API's error.
type plainNotFound struct{ error }

func (e plainNotFound) Unwrap() error { return e.error }

// do sends a request, repeats it where that is safe and can help, and returns
// the body of the answer. Its errors name the act and the object.
func (c *Cluster) do(ctx context.Context, r request) ([]byte, error) {
	body, err := c.persist(ctx, r)
	if err == nil {
		return body, nil
	}
	if r.once && outcomeUnknown(err) {
		err = &UnknownOutcome{err}
	}
	return nil, r.wrap(err)
}

func (r request) wrap(err error) error { return fmt.Errorf("%s %s: %w", r.verb, r.what, err) }

// persist is do without the last words.
func (c *Cluster) persist(ctx context.Context, r request) ([]byte, error) {
	var back backoff
	started := time.Now()
	renewed := false
	for attempt := 1; ; attempt++ {
		login := c.current()
		body, err := c.attempt(ctx, login, r)
		if err == nil || ctx.Err() != nil {
			return body, err
		}
		if code(err) == http.StatusUnauthorized {
			if !renewed && c.renew(ctx, login) {
				renewed = true // the refused request did nothing
				continue
			}
			return nil, fmt.Errorf("context %q: the server does not accept the credentials, log in again: %w", c.context, err)
		}
		after, again := c.again(r, err, attempt, time.Since(started))
		if !again {
			return nil, err
		}
		if pause(ctx, max(after, back.next())) != nil {
			return nil, err // which says more than that time ran out
		}
	}
}

// maxRefusals is how often a server may say that it is too busy.
const maxRefusals = 10

// again reports whether a request that failed is to be repeated.
func (c *Cluster) again(r request, err error, attempt int, since time.Duration) (after time.Duration, ok bool) {
	after, ok = transient(err)
	if !ok {
		return 0, false
	}
	var na *noAnswer
	if errors.As(err, &na) {
		return 0, !(r.once && na.sent) && since < c.patience()
	}
	if code(err) == http.StatusTooManyRequests {
		return after, attempt < maxRefusals
	}
	return after, !r.once && after > 0 && attempt < maxRefusals
}

// patience is how long to try while the server cannot be reached.
func (c *Cluster) patience() time.Duration {
	switch {
	case !c.answered.Load():
		return firstPatience
	case c.cfg.Patience > 0:
		return c.cfg.Patience
	}
	return defaultPatience
}

// outcomeUnknown reports whether a write that failed may have been done.
func outcomeUnknown(err error) bool {
	var na *noAnswer
	if errors.As(err, &na) {
		return na.sent
	}
	switch code(err) {
	case http.StatusBadGateway, http.StatusGatewayTimeout:
		return true // the server, or something on the way, gave up waiting
	case http.StatusInternalServerError:
		return strings.Contains(err.Error(), "etcdserver:") || strings.Contains(err.Error(), "context deadline exceeded") &&
			!strings.Contains(err.Error(), "webhook")
	}
	return false
}

// attempt sends a request once and reads the whole answer.
func (c *Cluster) attempt(caller context.Context, s *login, r request) ([]byte, error) {
	ctx, cancel := context.WithCancelCause(caller)
	defer cancel(nil)
	limit := readTimeout
	if r.once {
		limit = writeTimeout
	}
	timer := time.AfterFunc(limit, func() { cancel(errNoHeaders) })
	defer timer.Stop()
	resp, sent, err := c.send(ctx, s, r)
	if err != nil {
		return nil, c.unanswered(caller, ctx, err, sent)
	}
	defer resp.Body.Close()
	timer.Reset(bodyTimeout)
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, c.unanswered(caller, ctx, err, true)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return nil, r.statusError(resp, body)
	}
	return body, nil
}

// send sends a request and returns the answer with its body unread, and
// whether the server may have got the request.
func (c *Cluster) send(ctx context.Context, s *login, r request) (*http.Response, bool, error) {
	var sent atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteHeaders: func() { sent.Store(true) },
	})
	u := *c.base
	u.RawPath = strings.TrimSuffix(u.EscapedPath(), "/") + r.path
	u.Path, _ = url.PathUnescape(u.RawPath) // which we have escaped ourselves
	u.RawQuery = r.query.Encode()
	req, err := http.NewRequestWithContext(ctx, orDefault(r.method, http.MethodGet), u.String(), bytes.NewReader(r.body))
	if err != nil {
		return nil, false, err
	}
	if r.body == nil {
		req.Body, req.GetBody, req.ContentLength = nil, nil, 0
	} else {
		req.Header.Set("Content-Type", orDefault(r.contentType, "application/json"))
	}
	req.Header.Set("Accept", orDefault(r.accept, "application/json"))
	resp, err := s.client.Do(req)
	if err != nil {
		var record tls.RecordHeaderError
		return nil, sent.Load() && !errors.As(err, &record), err
	}
	c.answered.Store(true)
	c.warn(resp.Header.Values("Warning"))
	return resp, true, nil
}

// statusError makes the API's error from an answer. An answer that does not
// come from a Kubernetes API server becomes one too, with the start of its text.
func (r request) statusError(resp *http.Response, body []byte) error {
	after, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
	var status metav1.Status
	if isJSON(resp) && json.Unmarshal(body, &status) == nil && status.Kind == "Status" && status.Status == metav1.StatusFailure {
		if status.Code == 0 {
			status.Code = int32(resp.StatusCode)
		}
		if status.Details == nil {
			status.Details = &metav1.StatusDetails{}
		}
		if after > 0 {
			status.Details.RetryAfterSeconds = int32(after)
		}
		err := error(&apierrors.StatusError{ErrStatus: status})
		if resp.StatusCode == http.StatusNotFound && status.Details.Name == "" && status.Details.Kind == "" {
			return plainNotFound{err}
		}
		return err
	}
	text := strings.TrimSpace(string(body[:min(len(body), 300)]))
	if mt, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); mt == "text/html" {
		text = "" // a proxy's page, which helps nobody here
	}
	err := error(apierrors.NewGenericServerResponse(resp.StatusCode, r.verb, r.resource, r.name, text, after, true))
	if resp.StatusCode == http.StatusNotFound {
		return plainNotFound{err}
	}
	return err
}

func isJSON(resp *http.Response) bool {
	mt, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return mt == "application/json"
}

// backoff grows from a tenth of a second to two seconds, with jitter.
type backoff struct{ last time.Duration }

const (
	backoffMin = 100 * time.Millisecond
	backoffMax = 2 * time.Second
)

func (b *backoff) next() time.Duration {
	b.last = min(max(2*b.last, backoffMin), backoffMax)
	return b.last/2 + rand.N(b.last/2)
}

func (b *backoff) reset() { b.last = 0 }

// pause waits, or returns the error of ctx if that ends first.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
