// Builds requests with swagger-client from { document, server, asked: [{ origin, method, path, arguments }] } on standard input.
const loaded = require('swagger-client');
const { buildRequest } = loaded.default || loaded;
const { document, server, asked } = JSON.parse(require('fs').readFileSync(0, 'utf8'));
const isSwagger2 = Boolean(document.swagger);

const resolve = (value) => {
  while (value && value.$ref) {
    value = value.$ref.slice(2).split('/').reduce((at, key) => at[key.replace(/~1/g, '/').replace(/~0/g, '~')], document);
  }
  return value;
};
const resolved = (parameter) => {
  const found = { ...resolve(parameter) };
  if (found.schema) found.schema = resolve(found.schema);
  return found;
};

const answers = asked.map(({ origin, method, path, arguments: given }) => {
  const item = document.paths[path];
  const operation = { ...item[method], operationId: 'op' };
  const own = (operation.parameters || []).map(resolved);
  const shared = (item.parameters || []).map(resolved);
  operation.parameters = [...shared.filter((s) => !own.some((o) => o.name === s.name && o.in === s.in)), ...own];
  if (operation.requestBody) operation.requestBody = resolve(operation.requestBody);
  const parameters = {};
  for (const parameter of operation.parameters) {
    const both = `${parameter.in}_${parameter.name}`;
    const key = parameter.in === 'body' ? 'body' : both in given ? both : parameter.name;
    if (key in given) parameters[`${parameter.in}.${parameter.name}`] = given[key];
  }
  const url = new URL(server);
  const spec = isSwagger2
    ? { swagger: '2.0', host: url.host, schemes: [url.protocol.slice(0, -1)], paths: { [path]: { [method]: operation } } }
    : { openapi: document.openapi, servers: [{ url: server }], paths: { [path]: { [method]: operation } } };
  const content = Object.keys((operation.requestBody || {}).content || {});
  const consumes = operation.consumes || document.consumes || [];
  const requestContentType = isSwagger2
    ? ['application/json', 'application/merge-patch+json'].find((type) => consumes.includes(type) || consumes.includes('*/*'))
    : ['application/json', ...content].find((type) => content.includes(type));
  const request = buildRequest({ spec, operationId: 'op', parameters, requestBody: given.body, requestContentType });
  const body = request.body === undefined ? null
    : typeof request.body === 'string' ? request.body : JSON.stringify(request.body);
  const headers = {};
  for (const parameter of operation.parameters) {
    if (parameter.in === 'header' && request.headers[parameter.name]) headers[parameter.name] = request.headers[parameter.name];
  }
  return { origin, method: request.method, url: request.url, body, headers };
});
process.stdout.write(JSON.stringify(answers));
