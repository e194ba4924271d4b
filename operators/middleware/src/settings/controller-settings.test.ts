import { describe, expect, it } from "vitest";
import { defaultControllerSettings, readControllerSettings } from "./controller-settings.ts";

describe("controllers.yaml", () => {
  it("has the defaults of the original", () => {
    expect(defaultControllerSettings).toEqual({
      app: {
        workers: 5,
        maxRetries: 3,
        retryBackoffMs: 1_000,
        taskTimeout: "300s",
        isManualRetryEnabled: true,
        isManualCancelEnabled: true,
      },
      component: { workers: 10, grpcTimeoutMs: 30_000 },
      // maxConcurrentReconciles limits the workers.
      group: { workers: 10, grpcTimeoutMs: 30_000 },
    });
  });

  it("overrides single keys", () => {
    const text = `
controllers:
  app: {maxRetries: 0, retryBackoff: 5s, enableManualCancel: false, resyncPeriod: 1m}
  group: {workers: 4, grpcTimeout: 10s, rollingUpdate: {batchSize: 1, interval: 5s}}
`;
    const { app, component, group } = readControllerSettings(text);
    expect(app).toMatchObject({ workers: 5, maxRetries: 0, retryBackoffMs: 5_000, isManualCancelEnabled: false });
    expect(component).toEqual(defaultControllerSettings.component);
    expect(group).toEqual({ workers: 4, grpcTimeoutMs: 10_000 });
  });

  it.each([
    ["controllers: {apps: {}}", "controllers.apps: unknown key; must be one of app, component, group"],
    ["controllers: {app: {worker: 1}}", /^controllers\.app\.worker: unknown key; must be one of workers, /],
    ["controllers: {app: {retryBackoff: soon}}", "controllers.app.retryBackoff: must be a duration such as 30s"],
    ["controllers: {app: {workers: 0}}", "controllers.app.workers: must be an integer between 1 and 1000"],
    ["controllers: {app: {enableManualRetry: 1}}", "controllers.app.enableManualRetry: must be true or false"],
    ["controllers: {group: {rollingUpdate: {batchSize: 2}}}", /^controllers\.group\.rollingUpdate\.batchSize: must be/],
    ["controllers: {group: {rollingUpdate: {size: 2}}}", /^controllers\.group\.rollingUpdate\.size: unknown key/],
    ["controllers: [1]", "controllers: must be a map"],
    ["other: {}", "other: unknown key; must be one of controllers"],
    ["controllers: {", /^controllers\.yaml: /],
  ])("rejects %s with the name of the field", (text, message) => {
    expect(() => readControllerSettings(text)).toThrow(message);
  });
});
