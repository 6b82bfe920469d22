printf 'begin %s 1 %s\n' "$TORTURE_RUN" "$$" >> "$PRODIGY_TORTURE_DIR/effects/step.$step"
sleep 0.02
printf 'end %s 1 %s %s\n' "$TORTURE_RUN" "$$" "$value" >> "$PRODIGY_TORTURE_DIR/effects/step.$step"
echo "$value $step"
