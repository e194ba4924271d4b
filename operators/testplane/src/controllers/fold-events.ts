import type { EventDraft } from "./test-status.ts";

/** Maximum length of a note that others are folded into. */
const maxNote = 512;

/**
 * Folds the events of one write: a step that starts is named in the event before it, and a last step that succeeded in the event of the
 * test's success. An event is a request and its own object, so a test with two steps has three instead of six.
 */
export function foldEvents(drafts: readonly EventDraft[]): readonly EventDraft[] {
  const folded: EventDraft[] = [];
  for (const draft of drafts) {
    const before = folded.at(-1);
    const merged = before === undefined ? undefined : merge(before, draft);
    if (merged === undefined || merged.note.length > maxNote) folded.push(draft);
    else folded[folded.length - 1] = merged;
  }
  return folded;
}

function merge(before: EventDraft, draft: EventDraft): EventDraft | undefined {
  if (draft.reason === "StepStarted" && /^(IntegrationTestStarted|StepStarted|StepSucceeded)$/.test(before.reason))
    return { ...before, note: `${before.note}; started ${draft.note.replace(/^round \d+: /, "")}` };
  if (draft.reason === "IntegrationTestSucceeded" && before.reason === "StepSucceeded")
    return { ...draft, note: `${before.note}; ${draft.note}` };
  return undefined;
}
