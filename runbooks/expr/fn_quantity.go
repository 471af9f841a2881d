package expr

import (
	"fmt"
	"math/big"
	"regexp"
	"strconv"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

func quantityFunctions() []function {
	str, one := []*cel.Type{cel.StringType}, []*cel.Type{quantityType}
	return []function{{
		Function: Function{
			Name: "quantity",
			Signature: "quantity(string) -> quantity\nquantity(int) -> quantity\nquantity < quantity, <=, >, >=, ==\n" +
				"quantity.isLessThan(quantity) -> bool, isGreaterThan(quantity) -> bool, compareTo(quantity) -> int\n" +
				"quantity.asApproximateFloat() -> double, asInteger() -> int",
			Doc: "Reads an amount as Kubernetes writes it: 100m, 1Gi, 1e3, 110. Comparisons are exact. " +
				"asInteger fails for what is not whole.",
			Example: `quantity("1Gi") > quantity("1000M") && quantity("1500m").asApproximateFloat() == 1.5`,
		},
		opts: append(ordered("quantity", quantityType),
			cel.Types(quantityType),
			cel.Function("quantity",
				cel.Overload("string_to_quantity", str, quantityType, cel.UnaryBinding(toQuantity)),
				cel.Overload("int_to_quantity", []*cel.Type{cel.IntType}, quantityType,
					cel.UnaryBinding(func(v ref.Val) ref.Val {
						return toQuantity(types.String(strconv.FormatInt(int64(v.(types.Int)), 10)))
					}))),
			cel.Function("asApproximateFloat", cel.MemberOverload("quantity_as_float", one, cel.DoubleType,
				cel.UnaryBinding(func(v ref.Val) ref.Val {
					f, _ := v.Value().(*big.Rat).Float64()
					return types.Double(f)
				}))),
			cel.Function("asInteger", cel.MemberOverload("quantity_as_int", one, cel.IntType,
				cel.UnaryBinding(func(v ref.Val) ref.Val {
					r := v.Value().(*big.Rat)
					if !r.IsInt() || !r.Num().IsInt64() {
						return types.NewErr("%s is not a whole number that fits an int", v)
					}
					return types.Int(r.Num().Int64())
				}))),
		),
	}, {
		Function: Function{
			Name:      "isQuantity",
			Signature: "isQuantity(string) -> bool",
			Doc:       "Reports whether the text is an amount that quantity reads.",
			Example:   `isQuantity("250m") && !isQuantity("a lot")`,
		},
		opts: []cel.EnvOption{cel.Function("isQuantity", cel.Overload("is_quantity", str, cel.BoolType,
			cel.UnaryBinding(func(v ref.Val) ref.Val {
				_, err := parseQuantity(string(v.(types.String)))
				return types.Bool(err == nil)
			})))},
	}}
}

func toQuantity(v ref.Val) ref.Val {
	text := string(v.(types.String))
	r, err := parseQuantity(text)
	if err != nil {
		return types.WrapErr(err)
	}
	return &opaque{kind: quantityType, text: text, value: r, compare: func(a, b any) int {
		return a.(*big.Rat).Cmp(b.(*big.Rat))
	}}
}

var quantityForm = regexp.MustCompile(`^([+-]?(?:\d{1,64}(?:\.\d{0,64})?|\.\d{1,64}))(?:([KMGTPE]i)|([numkMGTPE])|[eE]([+-]?\d{1,3}))?$`)

// maxExponent bounds the exponent of a quantity; Kubernetes caps values far
// below.
const maxExponent = 64

func parseQuantity(s string) (*big.Rat, error) {
	m := quantityForm.FindStringSubmatch(s)
	if m == nil {
		return nil, fmt.Errorf("%q is not a quantity like 100m, 1Gi or 2", s)
	}
	r, ok := new(big.Rat).SetString(m[1])
	if !ok {
		return nil, fmt.Errorf("%q is not a quantity", s)
	}
	switch {
	case m[2] != "":
		return r.Mul(r, power(1024, suffixExponent("KMGTPE", m[2][0])+1)), nil
	case m[3] != "":
		return r.Mul(r, power(1000, suffixExponent("num kMGTPE", m[3][0])-3)), nil
	case m[4] != "":
		exp, err := strconv.Atoi(m[4])
		if err != nil || exp > maxExponent || exp < -maxExponent {
			return nil, fmt.Errorf("%q is not a quantity: the exponent is too large", s)
		}
		return r.Mul(r, power(10, exp)), nil
	}
	return r, nil
}

func suffixExponent(suffixes string, c byte) int {
	for i := range len(suffixes) {
		if suffixes[i] == c {
			return i
		}
	}
	return 0
}

// power returns base to the n-th, n of any sign.
func power(base int64, n int) *big.Rat {
	p := new(big.Int).Exp(big.NewInt(base), big.NewInt(int64(max(n, -n))), nil)
	r := new(big.Rat).SetInt(p)
	if n < 0 {
		r.Inv(r)
	}
	return r
}
