import { createVirtualClock } from "@keelson/api-machinery/testing";
import { expect, it } from "vitest";
import { ReportBudget } from "./report-budget.ts";

it("delays the reports of an agent only if they take too long together", async () => {
  const clock = createVirtualClock();
  const budget = new ReportBudget(clock);
  const { signal } = new AbortController();
  // A tenth of the time: the clock stands still while an end waits.
  for (let count = 0; count < 100; count += 1) {
    budget.begin();
    await clock.advance(10);
    await budget.end(signal);
    await clock.advance(90);
  }
  budget.begin();
  await clock.advance(180);
  let isRead = false;
  const end = budget.end(signal).then(() => {
    isRead = true;
  });
  await clock.advance(300);
  expect(isRead).toBe(false);
  await clock.advance(100);
  await end;
  expect(isRead).toBe(true);
});
