// A client of the TypeScript SDK with OpenTelemetry: a span around a call, whose context the call carries in `_meta`.
//
//     node client.mjs SERVER-URL OTLP-URL
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { defaultTextMapSetter, ROOT_CONTEXT, SpanKind, trace } from '@opentelemetry/api';
import { W3CTraceContextPropagator } from '@opentelemetry/core';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import { SimpleSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace';

const [server, receiver] = process.argv.slice(2);
const exporter = new OTLPTraceExporter({ url: `${receiver}/v1/traces` });
const provider = new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter })] });
const tracer = provider.getTracer('client');

const client = new Client({ name: 'client', version: '1.0.0' }, { versionNegotiation: { mode: { pin: '2026-07-28' } } });
await client.connect(new StreamableHTTPClientTransport(new URL(server)));
const span = tracer.startSpan('tools/call price', { kind: SpanKind.CLIENT, attributes: { 'mcp.method.name': 'tools/call' } });
const meta = {};
new W3CTraceContextPropagator().inject(trace.setSpan(ROOT_CONTEXT, span), meta, defaultTextMapSetter);
const result = await client.callTool({ name: 'price', arguments: { item: 'apple' }, _meta: meta });
span.end();
await provider.shutdown();
await client.close();
const { traceId, spanId } = span.spanContext();
process.stdout.write(JSON.stringify({ text: result.content[0].text, trace: traceId, span: spanId }));
