import { Http1Requester } from "./http1-requester.ts";
import { Http2Requester } from "./http2-requester.ts";
import type { LoadPlan } from "./load-plan.ts";
import type { Requester } from "./requester.ts";

/** The requester of a plan's protocol. */
export const createRequester = (plan: LoadPlan): Requester =>
  plan.request.protocol === "HTTP/2" ? new Http2Requester(plan) : new Http1Requester(plan);
