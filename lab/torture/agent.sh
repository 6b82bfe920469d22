file=$PRODIGY_TORTURE_DIR/effects/$PRODIGY_ITEM_ID
printf 'begin %s %s %s\n' "$TORTURE_RUN" "$PRODIGY_ATTEMPT" "$$" >> "$file"
tries=0
while read -r word rest; do
	if [ "$word" = begin ]; then tries=$((tries + 1)); fi
done < "$file"
# In a workspace, it looks first whether that is as new, and then does what its fate says to it.
if [ -n "$PRODIGY_BASE" ]; then
	found=$(git status --porcelain --ignored; git stash list
		[ "$(git rev-parse HEAD)" = "$PRODIGY_BASE" ] || echo "HEAD is not the base"
		[ "$(git config user.name)" = Torture ] || echo "settings of another agent"
		git branch --list fix; ls f/$PRODIGY_ITEM_ID 2>/dev/null; find . -name .git -prune -o -type p -print)
	if [ -n "$found" ]; then printf '%s/%s: %s\n' "$PRODIGY_ITEM_ID" "$PRODIGY_ATTEMPT" "$found" >> "$PRODIGY_TORTURE_DIR/unclean"; fi
	git config user.name Eve; git config core.hooksPath .git/hooks; mkdir -p .git/hooks
	own() { mkdir -p f; echo "$PRODIGY_ITEM_ID" > "f/$PRODIGY_ITEM_ID"; }
	[ "$fate" = nothing ] || own
	case $fate in
	commits) git add -A; git commit -qm one; echo x > two; git add two; git commit -qm two; rm two ;;
	union) echo "$PRODIGY_ITEM_ID" >> log ;;
	same) echo "$PRODIGY_ITEM_ID" > shared ;;
	stash) echo x > shared; git stash -q; git checkout -q stash@{0} -- shared 2>/dev/null; git checkout -q HEAD -- shared; own ;;
	branch) git checkout -q -b fix; git add -A; git commit -qm fix; git branch -q -D main ;;
	hide) echo "$PRODIGY_ITEM_ID" > "f/$PRODIGY_ITEM_ID"; git add f; git update-index --skip-worktree "f/$PRODIGY_ITEM_ID"
		mkfifo f/pipe; mkdir -p ignored; git init -q ignored/nested; echo x > ignored/nested/x; touch .git/index.lock .git/HEAD.lock; echo '*' > .git/info/exclude ;;
	merge) git add -A; git commit -qm x; git checkout -q -b other HEAD~1; echo 1 > shared; git commit -qam 1; git checkout -q -b another HEAD~1; echo 2 > shared; git commit -qam 2; git merge -q other >/dev/null 2>&1 ;;
	reset) git reset -q --hard "$PRODIGY_BASE~1" ;;
	nogit) rm -rf .git ;;
	culprit) mkdir -p culprits; own; echo x > "culprits/$PRODIGY_ITEM_ID" ;;
	esac
	printf '#!/bin/sh\nexit 1\n' > .git/hooks/pre-commit 2>/dev/null && chmod +x .git/hooks/pre-commit
fi
case $fate in
slow) sleep 0.02 ;;
hang) if [ "$TORTURE_RUN" = 1 ]; then sleep 100; fi ;;
bad) exit 7 ;;
flaky) if [ "$tries" -lt 3 ]; then exit 8; fi ;;
mend) if ! [ -e "$PRODIGY_TORTURE_DIR/mended" ]; then exit 9; fi ;;
big) head -c 200000 /dev/zero | tr '\0' x; echo ;;
esac
printf 'end %s %s %s\n' "$TORTURE_RUN" "$PRODIGY_ATTEMPT" "$$" >> "$file"
echo "done $PRODIGY_ITEM_ID"
