package expr

import (
	"errors"
	"fmt"
	"net/netip"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

func remapFunction() function {
	s, l, null := cel.StringType, cel.ListType(cel.StringType), cel.NullType
	bind := cel.FunctionBinding(callRemap)
	return function{
		Function: Function{
			Name:      "remap",
			Signature: "remap(string, string, string) -> string\nremap(string, list(string), list(string)) -> string",
			Doc: "Returns the address by which an IP of another network is reached here: the network part of the " +
				"CIDR it is remapped to, and its own host part, bit by bit. The second argument is the original " +
				"CIDR, the third the remapped one. Of two lists the entries pair up by position. It fails if the " +
				"address lies in no original CIDR, if families, prefix lengths or list lengths differ, and if " +
				"there is no remapped CIDR yet.",
			Example: `remap("10.244.45.200", "10.244.32.0/19", "10.71.96.0/19") == "10.71.109.200"`,
		},
		opts: []cel.EnvOption{cel.Function("remap",
			cel.Overload("remap_string_string_string", []*cel.Type{s, s, s}, s, bind),
			cel.Overload("remap_string_list_list", []*cel.Type{s, l, l}, s, bind),
			cel.Overload("remap_string_string_null", []*cel.Type{s, s, null}, s, bind),
			cel.Overload("remap_string_list_null", []*cel.Type{s, l, null}, s, bind),
		)},
	}
}

func callRemap(args ...ref.Val) ref.Val {
	plain := make([]any, len(args))
	for i, a := range args {
		var err error
		if plain[i], err = native(a, 0); err != nil {
			return types.WrapErr(err)
		}
	}
	ip, ok := plain[0].(string)
	if !ok {
		return types.MaybeNoSuchOverloadErr(args[0])
	}
	spec, err := texts(plain[1])
	if err != nil {
		return types.NewErr("remap: original CIDRs: %v", err)
	}
	status, err := texts(plain[2])
	if err != nil {
		return types.NewErr("remap: remapped CIDRs: %v", err)
	}
	out, err := remap(ip, spec, status)
	if err != nil {
		return types.NewErr("remap: %v", err)
	}
	return types.String(out)
}

// texts returns a string or a list of strings as a list, without what is
// empty at the end.
func texts(v any) ([]string, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case string:
		if v == "" {
			return nil, nil
		}
		return []string{v}, nil
	case []any:
		out := make([]string, len(v))
		for i, e := range v {
			s, ok := e.(string)
			if !ok {
				return nil, fmt.Errorf("want strings, got %s", describe(e))
			}
			out[i] = s
		}
		return out, nil
	}
	return nil, fmt.Errorf("want a string or a list of string, got %s", describe(v))
}

// remap maps ip from the first of the spec CIDRs that contains it to the
// status CIDR at the same index.
func remap(ip string, spec, status []string) (string, error) {
	addr, err := netip.ParseAddr(ip)
	if err != nil || addr.Zone() != "" {
		return "", fmt.Errorf("%q is not an IP address", ip)
	}
	switch {
	case len(spec) == 0:
		return "", errors.New("there is no original CIDR")
	case len(status) == 0:
		return "", errors.New("there is no remapped CIDR yet")
	case len(spec) != len(status):
		return "", fmt.Errorf("%d original but %d remapped CIDRs", len(spec), len(status))
	}
	from, to, err := prefixPairs(spec, status)
	if err != nil {
		return "", err
	}
	mixed := true
	for i, p := range from {
		mixed = mixed && p.Addr().Is4() != addr.Is4()
		if p.Contains(addr) {
			return moveTo(addr, to[i]).String(), nil
		}
	}
	if mixed {
		return "", fmt.Errorf("%s and %s are of different IP families", addr, spec[0])
	}
	return "", fmt.Errorf("%s is in none of the original CIDRs %v", addr, spec)
}

func prefixPairs(spec, status []string) (from, to []netip.Prefix, err error) {
	for i := range spec {
		if status[i] == "" {
			return nil, nil, fmt.Errorf("there is no remapped CIDR for %s yet", spec[i])
		}
		f, err := netip.ParsePrefix(spec[i])
		if err != nil {
			return nil, nil, fmt.Errorf("%q is not a CIDR", spec[i])
		}
		t, err := netip.ParsePrefix(status[i])
		if err != nil {
			return nil, nil, fmt.Errorf("%q is not a CIDR", status[i])
		}
		if f.Addr().Is4() != t.Addr().Is4() {
			return nil, nil, fmt.Errorf("%s and %s are of different IP families", f, t)
		}
		if f.Bits() != t.Bits() {
			return nil, nil, fmt.Errorf("%s and %s differ in prefix length", f, t)
		}
		from, to = append(from, f.Masked()), append(to, t.Masked())
	}
	return from, to, nil
}

// moveTo returns the network bits of to with the host bits of addr.
func moveTo(addr netip.Addr, to netip.Prefix) netip.Addr {
	host, network := addr.AsSlice(), to.Addr().AsSlice()
	for i := range host {
		bits := min(max(to.Bits()-8*i, 0), 8)
		mask := byte(0xff << (8 - bits))
		host[i] = network[i]&mask | host[i]&^mask
	}
	out, _ := netip.AddrFromSlice(host)
	return out
}
