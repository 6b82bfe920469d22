package filter

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"prodigy/internal/check"
)

// deepest is how far parentheses and nots may nest.
const deepest = 200

// parser reads an expression. It looks one token ahead.
type parser struct {
	lexer lexer
	token token // the one that comes next
	depth int
	terms *[]Term    // of a condition, whose paths they are; an item has its own
	paths [][]string // of the fields, each up to an index

	typed   []TypedComparison
	numeric []TypedComparison // those that no number or boolean can meet
}

// parseWith lets read read what is in src, from its first token on. An error shows the place with a caret.
func parseWith(src string, read func(*parser) error) error {
	p := &parser{lexer: lexer{src: src}}
	return p.run(read)
}

func (p *parser) run(read func(*parser) error) error {
	p.lexer.src = strings.TrimRight(p.lexer.src, " \t\r\n")
	err := p.advance()
	if err == nil {
		err = read(p)
	}
	var place *placeError
	if errors.As(err, &place) {
		return fmt.Errorf("%w\n%s", err, PointAt(p.lexer.src, place.at))
	}
	return err
}

func (p *parser) whole() (node, error) {
	root, err := p.or()
	if err != nil {
		return nil, err
	}
	if p.token.kind != tokenEnd {
		return nil, mistake(p.token.at, "expected an operator or the end, got %s", p.token)
	}
	return root, nil
}

func (p *parser) advance() (err error) {
	p.token, err = p.lexer.next()
	return err
}

// accept skips the next token if it is that sign, or that word in any case.
func (p *parser) accept(sign, word string) (bool, error) {
	if !p.token.isSign(sign) && !p.token.isWord(word) {
		return false, nil
	}
	return true, p.advance()
}

func (p *parser) expect(sign, why string) error {
	if !p.token.isSign(sign) {
		return mistake(p.token.at, "expected %q %s, got %s", sign, why, p.token)
	}
	return p.advance()
}

func (p *parser) or() (node, error) {
	return p.chain("||", "or", p.and, func(l, r node) node { return disjunction{l, r} })
}

func (p *parser) and() (node, error) {
	return p.chain("&&", "and", p.not, func(l, r node) node { return conjunction{l, r} })
}

func (p *parser) chain(sign, word string, part func() (node, error), join func(l, r node) node) (node, error) {
	left, err := part()
	if err != nil {
		return nil, err
	}
	for {
		more, err := p.accept(sign, word)
		if err != nil || !more {
			return left, err
		}
		right, err := part()
		if err != nil {
			return nil, err
		}
		left = join(left, right)
	}
}

func (p *parser) not() (node, error) {
	at := p.token.at
	negated, err := p.accept("!", "not")
	if err != nil {
		return nil, err
	}
	if !negated {
		return p.comparison()
	}
	if err := p.deeper(at); err != nil {
		return nil, err
	}
	defer p.shallower()
	inner, err := p.not()
	return negation{inner}, err
}

func (p *parser) deeper(at int) error {
	if p.depth++; p.depth > deepest {
		return mistake(at, "nested too deeply")
	}
	return nil
}

func (p *parser) shallower() { p.depth-- }

func (p *parser) comparison() (node, error) {
	start := p.token.at
	left, err := p.operand()
	if err != nil {
		return nil, err
	}
	if p.token.kind == tokenWord {
		return p.wordOperator(left, start)
	}
	sign := p.token
	test, ok := comparisons[sign.text]
	if !ok || sign.kind != tokenSign {
		return left, nil
	}
	n, err := p.compared(left, test)
	if err == nil {
		p.noteComparison(n, start, sign)
	}
	return n, err
}

// compared reads what stands right of an operator.
func (p *parser) compared(left node, test func(a, b Value) bool) (comparison, error) {
	if err := p.advance(); err != nil {
		return comparison{}, err
	}
	right, err := p.operand()
	return comparison{left, right, test}, err
}

func (p *parser) wordOperator(left node, start int) (node, error) {
	switch word := strings.ToLower(p.token.text); word {
	case "in":
		return p.in(left, start, p.token)
	case "not":
		return p.notIn(left, start)
	case "matches":
		if err := p.advance(); err != nil {
			return nil, err
		}
		re, err := p.regex()
		return match{left, re}, err
	default:
		if test, ok := textTests[word]; ok {
			return p.compared(left, test)
		}
	}
	return left, nil
}

// notIn reads "not in" and its list.
func (p *parser) notIn(left node, start int) (node, error) {
	not := p.token
	if err := p.advance(); err != nil {
		return nil, err
	}
	if !p.token.isWord("in") {
		return nil, mistake(p.token.at, "expected \"in\" after %q, got %s (a negated comparison is written not a == b)", not.text, p.token)
	}
	not.text = p.lexer.src[not.at : p.token.at+len(p.token.text)]
	list, err := p.in(left, start, not)
	return negation{list}, err
}

// in reads the list behind "in" or "not in", which operator is.
func (p *parser) in(left node, start int, operator token) (node, error) {
	if err := p.advance(); err != nil {
		return nil, err
	}
	if err := p.expect("[", "after in"); err != nil {
		return nil, err
	}
	var list []node
	for !p.token.isSign("]") {
		if len(list) > 0 {
			if err := p.expect(",", "or \"]\" in the list"); err != nil {
				return nil, err
			}
		}
		element, err := p.operand()
		if err != nil {
			return nil, err
		}
		list = append(list, element)
	}
	if err := p.advance(); err != nil {
		return nil, err
	}
	n := oneOf{left, list}
	p.noteList(n, start, operator)
	return n, nil
}

func (p *parser) regex() (*regexp.Regexp, error) {
	t := p.token
	if t.kind != tokenText {
		return nil, mistake(t.at, "expected a regular expression in quotes, got %s", t)
	}
	if p.terms != nil && strings.Contains(t.text, "${") {
		return nil, mistake(t.at, "a regular expression is constant, no value can stand in it")
	}
	re, err := regexp.Compile(t.text)
	var bad *syntax.Error
	if errors.As(err, &bad) {
		return nil, mistake(t.at, "not a regular expression: %s: %s", bad.Code, bad.Expr)
	}
	if err != nil {
		return nil, mistake(t.at, "not a regular expression: %v", err)
	}
	return re, p.advance()
}

// operand reads what can stand beside an operator.
func (p *parser) operand() (node, error) {
	t := p.token
	switch {
	case t.kind == tokenNumber:
		return constant{Value{kind: Number, text: t.text}}, p.advance()
	case t.kind == tokenPlace, t.kind == tokenText && p.terms != nil && strings.Contains(t.text, "$"):
		return p.named(t)
	case t.kind == tokenText:
		return constant{Value{kind: Text, text: t.text}}, p.advance()
	case t.kind == tokenWord:
		return p.word()
	case t.isSign("["):
		return p.steps(nil, t.at)
	case t.isSign("("):
		return p.group()
	}
	return nil, mistake(t.at, "expected a field, a value or \"(\", got %s", t)
}

func (p *parser) group() (node, error) {
	if err := p.deeper(p.token.at); err != nil {
		return nil, err
	}
	defer p.shallower()
	if err := p.advance(); err != nil {
		return nil, err
	}
	inner, err := p.or()
	if err != nil {
		return nil, err
	}
	return inner, p.expect(")", "to close the parenthesis")
}

// word reads what begins with a word: a constant, a call or a path.
func (p *parser) word() (node, error) {
	t := p.token
	if err := p.advance(); err != nil {
		return nil, err
	}
	if p.token.isSign("(") && !isOperator(t.text) {
		return p.call(t)
	}
	switch word := strings.ToLower(t.text); {
	case t.text == "null":
		return constant{}, nil
	case t.text == "true", t.text == "false":
		return constant{booleanValue(t.text == "true")}, nil
	case word == "null", word == "true", word == "false":
		return nil, mistake(t.at, "the constant is written %s (a field of that name is written item.%s)", word, t.text)
	case t.text == "None":
		return nil, mistake(t.at, "the constant is written null (a field of that name is written item.None)")
	case isOperator(t.text), textTests[t.text] != nil:
		return nil, mistake(t.at, "expected a field or a value, got %q (a field of that name is written item.%s)",
			t.text, t.text)
	}
	return p.steps([]step{{name: t.text}}, t.at)
}

// isOperator reports whether word is an operator that is a word in any case.
func isOperator(word string) bool {
	switch strings.ToLower(word) {
	case "and", "or", "not", "in":
		return true
	}
	return false
}

// calls names all functions.
func calls() string {
	names := slices.Concat(slices.Collect(maps.Keys(functions)), slices.Collect(maps.Keys(textTests)),
		[]string{"matches"})
	slices.Sort(names)
	return check.OneOf(names)
}

// call reads the arguments of a function.
func (p *parser) call(name token) (node, error) {
	function, test := functions[name.text], textTests[name.text]
	if function == nil && test == nil && name.text != "matches" {
		return nil, mistake(name.at, "there is no function %q (want %s)", name.text, calls())
	}
	if err := p.advance(); err != nil {
		return nil, err
	}
	first, err := p.operand()
	if err != nil {
		return nil, err
	}
	if function != nil {
		return call{function, first}, p.expect(")", "after the argument of "+name.text)
	}
	if err := p.expect(",", "between the arguments of "+name.text); err != nil {
		return nil, err
	}
	var n node
	if test != nil {
		var second node
		second, err = p.operand()
		n = comparison{first, second, test}
	} else {
		var re *regexp.Regexp
		re, err = p.regex()
		n = match{first, re}
	}
	if err != nil {
		return nil, err
	}
	return n, p.expect(")", "after the arguments of "+name.text)
}

// steps reads the rest of a path that starts at start.
func (p *parser) steps(path []step, start int) (node, error) {
	for {
		var s step
		var err error
		switch {
		case p.token.isSign("."):
			s, err = p.name()
		case p.token.isSign("["):
			s, err = p.bracket()
		default:
			return p.pathNode(path, start), nil
		}
		if err != nil {
			return nil, err
		}
		path = append(path, s)
	}
}

func (p *parser) name() (step, error) {
	if err := p.advance(); err != nil {
		return step{}, err
	}
	t := p.token
	if t.kind != tokenWord {
		return step{}, mistake(t.at, "expected a name after \".\", got %s", t)
	}
	return step{name: t.text}, p.advance()
}

func (p *parser) bracket() (step, error) {
	if err := p.advance(); err != nil {
		return step{}, err
	}
	t := p.token
	s := step{name: t.text}
	if t.kind == tokenNumber {
		n, err := strconv.Atoi(t.text)
		if err != nil || n < 0 {
			return step{}, mistake(t.at, "expected an index, a whole number from 0, got %s", t)
		}
		s = step{index: n, indexed: true}
	} else if t.kind != tokenText {
		return step{}, mistake(t.at, "expected an index or a name in quotes, got %s", t)
	}
	if err := p.advance(); err != nil {
		return step{}, err
	}
	return s, p.expect("]", "after it")
}
