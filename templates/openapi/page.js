// Starts Swagger UI with the document of this server, and with a search over all operations instead of a filter of tags.
'use strict'

const dark = matchMedia('(prefers-color-scheme: dark)')
const applyScheme = () => document.documentElement.classList.toggle('dark-mode', dark.matches)
dark.addEventListener('change', applyScheme)
applyScheme()

// Every word of the phrase occurs in the method, the path or the description of an operation.
function searchOperations(groups, phrase) {
  const words = phrase.toLowerCase().split(/\s+/).filter(Boolean)
  const matches = (entry) => {
    const operation = entry.get('operation')
    const text = [
      entry.get('method'), entry.get('path'),
      ...['operationId', 'summary', 'description'].map((name) => operation.get(name)),
      ...(operation.get('tags') ?? []),
    ].join(' ').toLowerCase()
    return words.every((word) => text.includes(word))
  }
  return groups
    .map((group) => group.set('operations', group.get('operations').filter(matches)))
    .filter((group) => group.get('operations').size > 0)
}

function SearchPlugin({ React }) {
  const SearchField = ({ layoutSelectors, layoutActions }) => {
    const phrase = layoutSelectors.currentFilter()
    return React.createElement('div', { className: 'search', role: 'search' },
      React.createElement('label', { htmlFor: 'search' }, 'Search'),
      React.createElement('input', {
        id: 'search',
        type: 'search',
        placeholder: 'for example: passkey, POST token, sign out',
        value: typeof phrase === 'string' ? phrase : '',
        onChange: (event) => layoutActions.updateFilter(event.target.value),
      }))
  }
  // A link inside the button of an operation would be unreachable for screen readers.
  const Path = ({ text }) => React.createElement('span', null, text)
  return { components: { FilterContainer: SearchField, DeepLink: Path }, fn: { opsFilter: searchOperations } }
}

// Names lists of examples, and lets the keyboard scroll examples.
new MutationObserver(() => {
  for (const list of document.querySelectorAll('select:not([aria-label], [id])')) list.setAttribute('aria-label', 'Choose')
  for (const example of document.querySelectorAll('pre.microlight:not([tabindex])')) example.tabIndex = 0
}).observe(document.querySelector('#page'), { childList: true, subtree: true })

SwaggerUIBundle({
  url: '/openapi.json',
  dom_id: '#page',
  plugins: [SearchPlugin],
  filter: true,
  deepLinking: true,
  displayRequestDuration: true,
  defaultModelsExpandDepth: 0,
  validatorUrl: null,
})
