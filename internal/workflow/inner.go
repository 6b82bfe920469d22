package workflow

// Inner is a list of steps that stands inside of a step.
type Inner struct {
	Name  string // the key that it stands under
	Steps []Step
}

// Inner returns the lists of steps that s holds, in the order in which they can run.
func (s Step) Inner() []Inner {
	var all []Inner
	for name, steps := range s.Following() {
		all = append(all, Inner{Name: name, Steps: steps})
	}
	return all
}
