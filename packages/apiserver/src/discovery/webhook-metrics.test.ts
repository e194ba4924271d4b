import { expect, it } from "vitest";
import { AdmissionWebhookMetrics } from "./webhook-metrics.ts";

it("counts calls, rejections and ignored failures under kube-apiserver's names", () => {
  const metrics = new AdmissionWebhookMetrics();
  const call = { name: "a.b.c", type: "validating", operation: "CREATE", durationMs: 30 } as const;
  metrics.observe({ ...call, code: 200, outcome: "allowed" });
  metrics.observe({ ...call, code: 403, outcome: "denied" });
  metrics.observe({ ...call, code: 503, outcome: "failed-open" });
  metrics.observe({ ...call, code: 503, outcome: "failed-closed" });
  const lines = [...metrics.lines()];
  const rest = 'name="a.b.c",operation="CREATE"';
  expect(lines).toEqual(
    expect.arrayContaining([
      `apiserver_admission_webhook_admission_duration_seconds_bucket{${rest},rejected="false",type="validating",le="0.025"} 0`,
      `apiserver_admission_webhook_admission_duration_seconds_bucket{${rest},rejected="false",type="validating",le="0.1"} 2`,
      `apiserver_admission_webhook_request_total{code="200",${rest},rejected="false",type="validating"} 1`,
      `apiserver_admission_webhook_rejection_count{error_type="no_error",${rest},rejection_code="403",type="validating"} 1`,
      `apiserver_admission_webhook_rejection_count{error_type="calling_webhook_error",${rest},rejection_code="503",type="validating"} 1`,
      'apiserver_admission_webhook_fail_open_count{name="a.b.c",type="validating"} 1',
    ]),
  );
});
